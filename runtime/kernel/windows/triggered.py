"""Windows aligned to the epoch that may overlap or never end, with triggers."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from struct import Struct as Layout
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ....dsl.message import Headers, PaneKind
from ....dsl.windows.assigners import Unbounded
from ....dsl.windows.triggers import Trigger
from ..state_backend import Change
from ..state_cache import TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END, START
from ..time.pausable import PausableFiring
from ..time.timers import Timers
from ..value_copies import UNCHANGING, own_copy
from .aligned import Aligned, ends_of, window_of
from .context import WindowContext
from .triggers import due, mark_fired, observe, slot_of, start_anew

A = TypeVar("A")

TIMERS = b"r"
"""The mark of the timers of these windows."""
_NAME = Layout(">Q")
# Makes a signed time unsigned, for a layout whose bytes sort as the times do.
_BIAS = 2**63


def key_of_timer(name: bytes) -> bytes:
    """The key of the window that a timer is of, given what is stored of the timer."""
    return name[_NAME.size :]


class TriggeredWindow(Struct, Generic[A], array_like=True, gc=False):
    """The state of a window of a key. `held` says that the accumulator holds messages.

    `shown` says that no message has come since the last pane, and `open` that one has come since the last on-time pane.
    `latest` is the time of the latest message. The last fields but one are the state of the trigger.

    `over` says that this record was written after the window had fired at its end, perhaps in a firing that is not
    over. An earlier record does not show that firing, since the firing writes nothing: see `_current`. Earlier versions
    did write, and left `over` None.
    """

    accumulator: A | None = None
    held: bool = False
    shown: bool = True
    open: bool = False
    latest: int = START
    seen: int = 0
    due_first: int = END
    due_last: int = END
    over: bool | None = None


class TriggeredWindowOperator:
    """Windows by their ends. State: end -> key -> `TriggeredWindow`, until the watermark reaches end + lateness; and a
    timer for each trigger that waits for a time.

    Before its end a window emits an early pane whenever `early` fires. After its end it emits a late pane whenever
    `late` fires, and at the end of its lateness one with the messages that `late` has not emitted.
    """

    def __init__(self, context: WindowContext, assigner: Aligned, early: Trigger, late: Trigger) -> None:
        self._context = context
        self._ends, self._window = ends_of(assigner), window_of(assigner)
        self._for_ever = isinstance(assigner, Unbounded)
        self._early, self._late = early, late
        self._fired = context.watermark
        self._firing = PausableFiring()
        self._pane = context.panes()
        id, backend, empty, schedule = context.id, context.backend, context.empty, context.schedule
        type_: Any = TriggeredWindow[context.state_type]  # type: ignore[name-defined]
        self._waiting: list[int] = []  # a heap of the ends of windows that have not fired; fired ones are removed later
        self._state = TimeBucketedState(id, backend, type_, TriggeredWindow, empty, self._add_end)
        self._timers = Timers(id, backend, slot_of(early, late), empty, schedule, context.watermark, mark=TIMERS)

    def _add_end(self, end: int) -> None:
        heappush(self._waiting, end)
        self._context.schedule(end)

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
        """Add a message to each of its windows that still takes messages; it is late if there is none."""
        if key is None:
            raise keyless()
        lateness, forgotten = self._context.lateness, self._context.forgotten
        ends = [end for end in self._ends(timestamp) if end + lateness > watermark and end > forgotten]
        if not ends:
            self._context.late(key, value, timestamp, headers)
            return
        # All values are added before any window changes, so that an error changes none. Each window gets a value of its
        # own, since an accumulator may keep it.
        shared = type(value) in UNCHANGING
        values = [value, *(value if shared else own_copy(value) for _ in ends[1:])]
        added = [(end, *self._with_value(end, key, own)) for end, own in zip(ends, values, strict=True)]
        for end, held, accumulator in added:
            held.accumulator, held.held, held.shown, held.open = accumulator, True, False, True
            held.latest, held.over = max(held.latest, timestamp), self._has_fired(end, key)
            self._state.at[end].fresh[key] = held
            self._evaluate(end, key, held, max(timestamp, watermark))

    def _with_value(self, end: int, key: bytes, value: Any) -> tuple[TriggeredWindow[Any], Any]:
        held = self._current(end, key, self._state.fresh(end)[key])
        aggregate = self._context.aggregate
        return held, aggregate.add(held.accumulator if held.held else aggregate.init(), value)

    def _has_fired(self, end: int, key: bytes) -> bool:
        """Whether the window of a key has fired at its end."""
        return end <= self._fired or self._context.fired.has(end, key)

    def _current(self, end: int, key: bytes, held: TriggeredWindow[Any]) -> TriggeredWindow[Any]:
        """The state of a window. If it has fired at its end, apply that firing, which is not stored."""
        if held.over is False and self._has_fired(end, key):
            start_anew(held)
            held.shown, held.open, held.over = True, False, True
            if not self._context.accumulate:
                held.accumulator, held.held = None, False
        return held

    def _evaluate(self, end: int, key: bytes, held: TriggeredWindow[Any], time: int) -> None:
        """Evaluate the trigger after a message: fire now, or set a timer."""
        over = end <= self._fired
        trigger, limit = (self._late, end + self._context.lateness) if over else (self._early, end)
        if observe(trigger, held, time):
            mark_fired(trigger, held)
            self._show(end, key, held, "late" if over else "early")
        elif due(held) < limit:
            # A timer may lie before the last firing if the input has ended and then continued.
            self._timers.set(max(due(held), self._fired + 1), _NAME.pack(end + _BIAS) + key)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that restores the windows of a key that a message of this time falls into."""
        # A timer that was set stays: it fires without effect.
        snapshot = self._context.snapshot_of
        restores = [self._state.undo(end, key or b"", snapshot) for end in self._ends(timestamp)]

        def take_back() -> None:
            for restore in restores:
                restore()

        return take_back

    def _show(self, end: int, key: bytes, held: TriggeredWindow[Any], kind: PaneKind) -> None:
        self._emit(end, key, held, kind, stays=self._context.accumulate)
        held.shown, held.over = True, self._has_fired(end, key)
        held.open = held.open and kind != "on_time"
        cache = self._state.at[end]
        if self._context.accumulate:
            cache.fresh[key] = held
            return
        held.accumulator, held.held, held.latest = None, False, START
        if held.seen == 0:  # there is nothing left to remember
            cache.delete(key)
        else:
            cache.fresh[key] = held

    def _emit(self, end: int, key: bytes, held: TriggeredWindow[Any], kind: PaneKind, *, stays: bool) -> None:
        timestamp = held.latest if self._for_ever else end - 1
        self._pane(key, self._window(end), held.accumulator, kind, (), timestamp, stays)

    def advance(self, watermark: int) -> bool:
        """Fire the triggers and windows that are due, earliest first, and drop windows that take no more messages."""
        if watermark == END and self._context.keeps and not self._for_ever:
            return self._firing.run(self._fire_at_end)
        if watermark >= self.next_due() or self._firing.paused:
            return self._firing.run(lambda: self._fire_all(watermark))
        if watermark < END:
            self._fired = max(self._fired, watermark)
        return True

    def _fire_all(self, watermark: int) -> Iterator[None]:
        while (time := self._next_end()) <= watermark:
            yield from self._fire_due(time - 1, watermark)
            if time > self._fired and time in self._state.at:
                yield from self._fire(time, watermark)
            if time == END:
                break
            if time - self._context.lateness in self._state.at:
                yield from self._drop(time - self._context.lateness)
        yield from self._fire_due(watermark, watermark)
        self._context.fired.complete(watermark)
        if watermark < END:
            self._fired = max(self._fired, watermark)

    def _fire_at_end(self) -> Iterator[None]:
        """Emit at the end of input what no pane has shown, and keep all windows for a later run."""
        for end in sorted(self._state.at):
            over, cache = end <= self._fired, self._state.at[end]
            if not over:
                self._context.firing(end)
            for key, stored in cache.items():
                held = self._current(end, key, stored)
                if held.held and not held.shown if over else held.held and held.open:
                    self._emit(end, key, held, "late" if over else "on_time", stays=True)
                    start_anew(held)
                    held.shown, held.open = True, False
                    cache.fresh[key] = held
                    if self._context.pauses():
                        yield

    def _fire(self, end: int, watermark: int) -> Iterator[None]:
        self._context.firing(end)
        if end < END:
            self._fired = end
        if self._for_ever:
            for key, held in self._state.at[end].items():
                if held.held and held.open:
                    self._show(end, key, held, "on_time")
                    if self._context.pauses():
                        yield
            return
        stays = self._context.accumulate and end + self._context.lateness > watermark
        done, cache, last = self._context.fired, self._state.at[end], b""
        for key, held in cache.items():
            last, again = key, done.has(end, key)
            if again and not held.over:
                continue
            if held.held and held.open:
                self._emit(end, key, held, "on_time", stays=stays)
            if stays:
                self._retain(end, key, held)
            elif again or watermark == END:  # a run that stops while the firing pauses leaves nothing to later runs
                cache.delete(key)
            if self._context.pauses():
                if watermark < END:
                    done.pause(end, key)
                yield
        if stays:
            done.pause(end, last)  # triggers that are due at this end may pause, and time has not reached it yet
            return
        done.complete(end)
        self._state.drop(end)  # nothing of it is needed again, so nothing is written

    def _retain(self, end: int, key: bytes, held: TriggeredWindow[Any]) -> None:
        """Retain a window that has fired at its end, for late messages. The firing is not stored: see `_current`."""
        cache = self._state.at[end]
        if not held.held:
            cache.delete(key)
        elif held.over is None:
            held.over = False
            cache.fresh[key] = held
        elif held.over:  # a message has come since it fired in a firing that was not over
            held.shown, held.open = True, False
            cache.fresh[key] = held

    def _drop(self, end: int) -> Iterator[None]:
        """Delete a window. Messages that the trigger for late panes has not emitted are emitted now."""
        cache = self._state.at[end]
        for key, stored in cache.items():
            held = self._current(end, key, stored)
            if held.held and not held.shown:
                self._emit(end, key, held, "late", stays=False)
                cache.delete(key)
                if self._context.pauses():
                    yield
        self._state.drop(end)

    def _fire_due(self, time: int, watermark: int) -> Iterator[None]:
        """Fire the triggers that are due. A window whose end is due as well fires once, on time."""
        for now, name in self._timers.fire(time if watermark < END else END):
            end, key = _NAME.unpack_from(name)[0] - _BIAS, key_of_timer(name)
            cache = self._state.at.get(end)
            if cache is None or watermark == END:
                continue
            held = self._current(end, key, cache.fresh[key])
            over = end <= self._fired
            trigger, limit = (self._late, end + self._context.lateness) if over else (self._early, end)
            if now < due(held) < limit:
                self._timers.set(due(held), name)
            elif due(held) <= now and limit > watermark:
                self._context.firing(now)
                mark_fired(trigger, held)
                self._show(end, key, held, "late" if over else "early")
                if self._context.pauses():
                    yield

    def next_due(self) -> int:
        """The watermark at which a trigger or a window is next due, in ms since epoch."""
        return min(self._timers.next_due(), self._next_end())

    def _next_end(self) -> int:
        """When a window next fires on time, or is deleted."""
        waiting, known = self._waiting, self._state.at
        while waiting and (waiting[0] <= self._fired or waiting[0] not in known):
            heappop(waiting)
        first = self._state.first()
        over = END if first is None else first + self._context.lateness
        return min(waiting[0], over) if waiting else over

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._state.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._state.changes(), self._timers.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._state.mark_committed()
        self._timers.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._state.caches(), self._timers.caches())

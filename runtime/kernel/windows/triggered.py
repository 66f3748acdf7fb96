"""Windows aligned to the epoch that may overlap or never end, and fire when triggers say so too."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from struct import Struct as Layout
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ....dsl.message import Headers, PaneKind
from ....dsl.triggers import Trigger
from ....dsl.windows import Unbounded
from ..state_cache import Change, TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END, START
from ..time.timers import Timers
from ..value_copies import UNCHANGING, own_copy
from .aligned import Aligned, ends_of, window_of
from .context import WindowContext
from .triggers import begin, due, has_fired, see, slot_of

A = TypeVar("A")

_NAME = Layout(">Q")
_BIAS = 2**63


class TriggeredWindow(Struct, Generic[A], array_like=True, gc=False):
    """What a window of a key holds: the accumulator, if `held` says that there are messages in it.

    `shown` says that nothing has come since its last pane, `open` that something has since its last pane on time.
    `latest` is the time of its latest message. `over` says that it was written after its window had fired at its end;
    if it was not, that firing has left it shown and closed, which nobody has written down. Older versions did, and left
    `over` None. The rest is what the trigger has seen.
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
    """Windows by their ends. State: end -> key -> what is held, until the watermark is at end + lateness; and a timer
    for each trigger that waits for time.

    Before its end a window shows early panes, when `early` fires; from then on late ones, when `late` does, and at the
    last what `late` has left.
    """

    def __init__(self, context: WindowContext, assigner: Aligned, early: Trigger, late: Trigger) -> None:
        self._context = context
        self._ends, self._window = ends_of(assigner), window_of(assigner)
        self._for_ever = isinstance(assigner, Unbounded)
        self._early, self._late = early, late
        self._fired = context.watermark
        self._pane = context.panes()
        id, backend, empty, schedule = context.id, context.backend, context.empty, context.schedule
        kind: Any = TriggeredWindow[context.state_type]  # type: ignore[name-defined]
        self._waiting: list[int] = []  # a heap of the ends of windows that have not fired; others leave it late
        self._state = TimeBucketedState(id, backend, kind, TriggeredWindow, empty, self._began)
        self._timers = Timers(id, backend, slot_of(early, late), empty, schedule, context.watermark, mark=b"r")

    def _began(self, end: int) -> None:
        heappush(self._waiting, end)
        self._context.schedule(end)

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
        if key is None:
            raise keyless()
        lateness, forgotten = self._context.lateness, self._context.forgotten
        ends = [end for end in self._ends(timestamp) if end + lateness > watermark and end > forgotten]
        if not ends:
            self._context.late(key, value, timestamp, headers)
            return
        # All of them first: what raises must leave none of them changed. Accumulators may take the value in as it is.
        shared = type(value) in UNCHANGING
        values = [value, *(value if shared else own_copy(value) for _ in ends[1:])]
        added = [(end, *self._added(end, key, own)) for end, own in zip(ends, values, strict=True)]
        for end, held, accumulator in added:
            held.accumulator, held.held, held.shown, held.open = accumulator, True, False, True
            held.latest, held.over = max(held.latest, timestamp), end <= self._fired
            self._state.at[end].fresh[key] = held
            self._look(end, key, held, max(timestamp, watermark))

    def _added(self, end: int, key: bytes, value: Any) -> tuple[TriggeredWindow[Any], Any]:
        held = self._now(end, self._state.fresh(end)[key])
        aggregate = self._context.aggregate
        return held, aggregate.add(held.accumulator if held.held else aggregate.init(), value)

    def _now(self, end: int, held: TriggeredWindow[Any]) -> TriggeredWindow[Any]:
        """What is held as the firing at the window's end has left it, if that has been."""
        if held.over is False and end <= self._fired:
            begin(held)
            held.shown, held.open, held.over = True, False, True
        return held

    def _look(self, end: int, key: bytes, held: TriggeredWindow[Any], time: int) -> None:
        """A message has come: let the trigger fire, or wait for its time."""
        over = end <= self._fired
        trigger, limit = (self._late, end + self._context.lateness) if over else (self._early, end)
        if see(trigger, held, time):
            has_fired(trigger, held)
            self._show(end, key, held, "late" if over else "early")
        elif due(held) < limit:
            # At the end of input timers fire without effect, and time may have passed them when more messages come.
            self._timers.set(max(due(held), self._fired + 1), _NAME.pack(end + _BIAS) + key)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        # A timer that was set stays: it fires without effect.
        restores = [self._state.undo(end, key or b"") for end in self._ends(timestamp)]

        def take_back() -> None:
            for restore in restores:
                restore()

        return take_back

    def _show(self, end: int, key: bytes, held: TriggeredWindow[Any], kind: PaneKind) -> None:
        self._emit(end, key, held, kind, stays=self._context.accumulate)
        held.shown, held.over = True, end <= self._fired
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

    def advance(self, watermark: int) -> None:
        if watermark >= self.next_due():
            while (time := self._next_end()) <= watermark:
                self._fire_due(time - 1, watermark)
                if time > self._fired and time in self._state.at:
                    self._fire(time, watermark)
                if time == END:
                    break
                if time - self._context.lateness in self._state.at:
                    self._drop(time - self._context.lateness)
            self._fire_due(watermark, watermark)
        if watermark < END:
            self._fired = max(self._fired, watermark)

    def _fire(self, end: int, watermark: int) -> None:
        self._context.firing(end)
        if end < END:
            self._fired = end
        items = self._context.in_pieces(self._state.at[end].items())
        if self._for_ever:
            for key, held in items:
                if held.held and held.open:
                    self._show(end, key, held, "on_time")
            return
        stays = self._context.accumulate and end + self._context.lateness > watermark
        for key, held in items:
            shows = held.held and held.open
            if shows:
                self._emit(end, key, held, "on_time", stays=stays)
            if stays:
                self._keep(end, key, held, shows=shows)
        if not stays:  # nothing of it is needed any more, so nothing is written either
            self._state.drop(end)

    def _keep(self, end: int, key: bytes, held: TriggeredWindow[Any], *, shows: bool) -> None:
        """Keep what has fired at its window's end, which is not written down: see `_now`."""
        cache = self._state.at[end]
        if not shows:
            cache.delete(key)
        elif held.over is None:
            held.over = False
            cache.fresh[key] = held

    def _drop(self, end: int) -> None:
        """Forget a window; what the trigger for late panes has left is shown now."""
        for key, stored in self._context.in_pieces(self._state.at[end].items()):
            held = self._now(end, stored)
            if held.held and not held.shown:
                self._emit(end, key, held, "late", stays=False)
        self._state.drop(end)

    def _fire_due(self, time: int, watermark: int) -> None:
        """Let triggers fire whose time has come, unless their windows' own time has come with it."""
        for now, name in self._timers.fire(time if watermark < END else END):
            end, key = _NAME.unpack_from(name)[0] - _BIAS, name[_NAME.size :]
            cache = self._state.at.get(end)
            if cache is None or watermark == END:
                continue
            held = self._now(end, cache.fresh[key])
            over = end <= self._fired
            trigger, limit = (self._late, end + self._context.lateness) if over else (self._early, end)
            if now < due(held) < limit:
                self._timers.set(due(held), name)
            elif due(held) <= now and limit > watermark:
                self._context.firing(now)
                has_fired(trigger, held)
                self._show(end, key, held, "late" if over else "early")

    def next_due(self) -> int:
        return min(self._timers.next_due(), self._next_end())

    def _next_end(self) -> int:
        """When a window next fires on time, or is forgotten."""
        waiting, known = self._waiting, self._state.at
        while waiting and (waiting[0] <= self._fired or waiting[0] not in known):
            heappop(waiting)
        first = self._state.first()
        over = END if first is None else first + self._context.lateness
        return min(waiting[0], over) if waiting else over

    @property
    def changed(self) -> int:
        return self._state.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        return chain(self._state.changes(), self._timers.changes())

    def mark_committed(self) -> None:
        self._state.mark_committed()
        self._timers.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        return chain(self._state.caches(), self._timers.caches())

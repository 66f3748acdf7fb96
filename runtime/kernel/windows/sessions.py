"""Session windows: for each key the spans of time in which it was active. Timers fire when a span may have ended.

Two accepted messages are in one session iff a chain of gaps of at most `gap` connects them, in any order of arrival.
The exception is a session that had been forgotten before the other message came.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from ....dsl.message import Headers, PaneKind, Window
from ..state_backend import Change
from ..state_cache import KeyedState, TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END
from ..time.pausable import PausableFiring
from ..time.timers import Timers
from ..value_copies import own_copy
from .context import WindowContext

A = TypeVar("A")

SLOTS = 16
"""Timer slots within a gap."""


class Span(Struct, Generic[A], array_like=True, gc=False):
    """One session: the times of its first and its last message, its accumulator, and what has been emitted of it.

    `held` says that the accumulator holds messages, and `fired` that no message has come since the last pane.
    `standing` has the windows, as (start, end), of the panes that no later pane has replaced.

    A `fired` of None says that the session had not fired when it was stored, and fires at its end. That firing is not
    stored: it follows from the operator's watermark. Older versions stored it, with False for a session that had not
    fired; they cannot read None, so they refuse state that they would misread.
    """

    first: int
    last: int
    accumulator: A | None
    held: bool
    fired: bool | None
    standing: list[tuple[int, int]]


class SessionState(Span[A], Generic[A], array_like=True, gc=False):
    """A session. `shown` says that it fired at an end of input, before its time, and that no message has come since."""

    shown: bool = False


class SessionOperator:
    """Sessions of one gap: the spans of each key, in their order. A span that has not fired has a timer at its end, or
    before.

    A span that has fired stays while a message that is not late may join it: until the watermark reaches its end +
    lateness + gap. It stays longer while the next span stays and is near enough for one message to join both. Then it
    expires, for without a limit a chain of messages, each a gap before the last, could lead back to any past session.
    An expired session is ignored at each read of its key, and deleted when its slot of `_forgotten` is due.
    """

    span: ClassVar[Any] = SessionState
    """The record of a session."""

    def __init__(self, context: WindowContext, gap: int) -> None:
        self._context = context
        self._gap = gap
        self._slot = max(1, gap // SLOTS)
        self._retention = context.lateness + gap  # after its end, once it has fired
        self._fired = self._passed = context.watermark
        self._ended = False  # whether all sessions fire and expire now, at the end of input
        self._firing = PausableFiring()
        self._done = context.fired
        self._pane = context.panes()
        type_: Any = list[self.span[context.state_type]]  # type: ignore[name-defined]
        id, backend, empty, schedule = context.id, context.backend, context.empty, context.schedule
        self._keys = KeyedState(id, backend, type_, list, empty)
        self._timers = Timers(id, backend, self._slot, empty, schedule, context.watermark)
        self._forgotten = TimeBucketedState(id, backend, bool, bool, empty, schedule, mark=b"f")
        self.add = self._adder()

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        # A closure over locals: this runs for each message.
        gap, reach, fold = self._gap, self._gap + 1 + self._context.lateness, self._context.aggregate.add
        fresh, begin, join, stored = self._keys.cache.fresh, self._begin, self._join, self._stored
        known, forgotten = fresh.get, self._context.forgotten - gap - 1

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            if key is None:
                raise keyless()
            cached = known(key)
            spans = stored(key) if cached is None else cached
            if len(spans) == 1:
                # The fast path: nearly all messages belong to the one active session of their key.
                span = spans[0]
                last = span.last
                if not span.fired and span.first - gap <= timestamp <= last + gap and last + reach > watermark:
                    span.accumulator = fold(span.accumulator, value)
                    span.shown = False
                    if timestamp > last:
                        span.last = timestamp
                    elif timestamp < span.first:
                        span.first = timestamp
                    if cached is None:
                        fresh[key] = spans
                    return
            elif not spans and timestamp + reach > watermark and timestamp > forgotten:
                begin(key, value, timestamp, watermark)
                return
            join(key, spans, value, timestamp, headers, watermark)

        return add

    def _spans(self, key: bytes) -> list[SessionState[Any]]:
        """The sessions of a key."""
        spans: list[SessionState[Any]] | None = self._keys.cache.fresh.get(key)
        return self._stored(key) if spans is None else spans

    def _stored(self, key: bytes) -> list[SessionState[Any]]:
        """The sessions of a key that has no change since the last commit, as firings have left them."""
        spans: list[SessionState[Any]] = self._keys.cache.fresh[key]
        for span in spans:
            # Not `_fired`: while time advances, other sessions that end at the same time have yet to fire.
            if span.fired is None:
                end = span.last + self._gap + 1
                if end <= self._passed or (end <= self._done.upto and self._done.has(end, key)):
                    self._mark_fired(span)
        return spans

    def _mark_fired(self, span: SessionState[Any]) -> None:
        """The session has fired at its end."""
        span.fired = True
        if span.held:
            span.standing = [(span.first, span.last + self._gap + 1)]

    def _begin(self, key: bytes, value: Any, timestamp: int, watermark: int) -> None:
        """Start the first session of a key, for a message that is not late."""
        aggregate = self._context.aggregate
        span = self.span(timestamp, timestamp, aggregate.add(aggregate.init(), value), True, None, [])
        self._keys.cache.fresh[key] = [span]
        self._after_message(key, span, max(timestamp, watermark), timed=False)

    def _after_message(self, key: bytes, span: SessionState[Any], time: int, *, timed: bool) -> None:  # noqa: ARG002 - for triggers
        """Update the timer of a session after a message. A session whose end has passed emits a late pane."""
        end = span.last + self._gap + 1
        if end <= self._fired:
            self._fire(key, span, "late")
            return
        if end <= self._done.upto and self._done.has(end, key):
            span.fired = False  # it is to fire again, which is stored: see `_stored`
        if not timed:
            self._timers.set(end, key)

    def _join(
        self, key: bytes, spans: list[SessionState[Any]], value: Any, timestamp: int, headers: Headers, watermark: int
    ) -> None:
        gap = self._gap
        spans = self._unexpired(spans, self._fired)
        forgotten = self._context.forgotten
        if not spans and timestamp + gap + 1 + self._context.lateness > watermark and timestamp + gap + 1 > forgotten:
            self._begin(key, value, timestamp, watermark)
            return
        joined = [span for span in spans if span.first - gap <= timestamp <= span.last + gap]
        last = max(timestamp, joined[-1].last) if joined else timestamp
        end = last + gap + 1
        if end + self._context.lateness <= watermark or end <= forgotten:
            self._context.late(key, value, timestamp, headers)
            return
        timed = any(not span.fired for span in joined)
        span = self._union(joined, value, timestamp, last)
        if len(joined) != 1:
            gone = {id(other) for other in joined}
            spans = sorted([*(other for other in spans if id(other) not in gone), span], key=_first)
        self._keys.cache.fresh[key] = spans
        self._after_message(key, span, max(timestamp, watermark), timed=timed)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - of the key's sessions any
        """A function that restores the sessions of a key."""
        # A timer that was set stays: it fires without effect.
        return self._keys.cache.undo(key or b"", self._snapshot)

    def _snapshot(self, spans: list[SessionState[Any]]) -> Callable[[], list[SessionState[Any]]]:
        """The snapshot of the sessions of a key."""
        snapshots = [self._context.snapshot_of(span) for span in spans]
        return lambda: [restored() for restored in snapshots]

    def _union(self, joined: list[SessionState[Any]], value: Any, timestamp: int, last: int) -> SessionState[Any]:
        """Merge the sessions that a message joins, and add the message. If a user's function raises, nothing has
        changed."""
        aggregate = self._context.aggregate
        merge: Any = aggregate.merge
        held = [span.accumulator for span in joined if span.held]
        if len(held) > 1:  # `merge` may change its arguments before `add` raises
            held = [own_copy(accumulator) for accumulator in held]
        accumulator = held[0] if held else aggregate.init()
        for other in held[1:]:
            accumulator = merge(accumulator, other)
        accumulator = aggregate.add(accumulator, value)
        if len(joined) == 1:
            span = joined[0]
            span.first, span.last = min(span.first, timestamp), last
            span.accumulator, span.held, span.fired, span.shown = accumulator, True, None, False
            return span
        first = min(timestamp, joined[0].first) if joined else timestamp
        standing = list(chain.from_iterable(span.standing for span in joined))
        union: SessionState[Any] = self.span(first, last, accumulator, True, None, standing)
        return union

    def _fire(self, key: bytes, span: SessionState[Any], kind: PaneKind) -> None:
        """Emit the pane of a session. It has no timer until another message comes; it only has to expire."""
        if span.held and not span.shown:
            self._emit(key, span, kind)
        span.fired = True
        self._schedule_expiry(key, span)

    def _schedule_expiry(self, key: bytes, span: SessionState[Any]) -> None:
        """Schedule the expiry of a span that has fired."""
        due = self._expiry(span)
        self._forgotten.fresh(due + -due % self._slot)[key] = True

    def _emit(self, key: bytes, span: SessionState[Any], kind: PaneKind) -> None:
        end = span.last + self._gap + 1
        standing, span.standing = span.standing, [(span.first, end)]
        replaces = tuple(sorted(Window(*past) for past in standing if past != (span.first, end))) if standing else ()
        stays = self._context.accumulate and not self._ended
        self._pane(key, Window(span.first, end), span.accumulator, kind, replaces, stays=stays)
        if not self._context.accumulate:
            span.accumulator, span.held = None, False

    def advance(self, watermark: int) -> bool:
        """Fire the sessions that are due, earliest first, and forget those that no message can join any more."""
        if watermark == END and self._context.keeps:
            return self._firing.run(self._show_at_end)
        return self._firing.run(lambda: self._fire_all(watermark))

    def _fire_all(self, watermark: int) -> Iterator[None]:
        self._ended = watermark == END
        done, pauses = self._done, self._context.pauses
        for time, key in self._timers.fire(watermark):
            # The firing is not stored, and memory may be freed at any emission: what is read again has fired by then.
            if time > self._passed:
                self._passed = time - 1
            self._fire_due(key, time)
            if pauses():
                if not self._ended:
                    self._move_to(time)  # timers may be due at a time when no session ends
                    done.pause(time, key)
                yield
        done.complete(watermark)
        if watermark < END:
            self._fired = max(self._fired, watermark)
        self._passed = self._fired
        while (slot := self._forgotten.first()) is not None and slot <= watermark:
            self._delete_expired(slot, watermark)
        self._ended = False

    def _show_at_end(self) -> Iterator[None]:
        """Emit at the end of input what no pane has shown, earliest first, and keep the sessions for a later run."""
        for over, keys in self._timers.waiting():
            due: set[tuple[int, bytes]] = set()
            for key in keys:
                due.update((limit, key) for limit in self._due_before(over, key))
                if self._context.pauses():
                    yield
            for limit, key in sorted(due):
                spans = self._spans(key)
                self._context.firing(limit)
                for span in spans:
                    if self._limit(span) == limit and self._is_to_show(span):
                        self._show(key, span)
                self._keys.cache.fresh[key] = spans
                if self._context.pauses():
                    yield

    def _due_before(self, before: int, key: bytes) -> Iterator[int]:
        """When those sessions of a key are due that no pane has shown, before a time. Timers of later ones are set."""
        for span in self._spans(key):
            limit = self._limit(span)
            if not span.fired and limit >= before:
                self._timers.set(limit, key)
            elif self._is_to_show(span):
                yield limit

    def _is_to_show(self, span: SessionState[Any]) -> bool:
        return span.held and not span.fired and not span.shown

    def _show(self, key: bytes, span: SessionState[Any]) -> None:
        """Emit the pane of a session at the end of input."""
        self._emit(key, span, "on_time")
        span.shown = True

    def _limit(self, span: SessionState[Any]) -> int:
        """When a session fires, whether or not its trigger does."""
        return span.last + self._gap + 1

    def _move_to(self, time: int) -> None:
        """Advance the operator's watermark to a time, before it fires what is due."""
        if time > self._fired:
            self._context.firing(time)
            self._fired = time

    def _fire_due(self, key: bytes, time: int) -> None:
        """Fire what is due for a key by `time`, and set the timers of what is not."""
        spans = self._spans(key)
        for span in spans:
            if not span.fired:
                end = span.last + self._gap + 1
                if end <= time:
                    self._move_to(time)
                    self._fire_at_end(key, span, spans)
                else:
                    self._timers.set(end, key)

    def _fire_at_end(self, key: bytes, span: SessionState[Any], spans: list[SessionState[Any]]) -> None:
        """Fire a session at its end. It is written only where that does not follow from the watermark."""
        if span.fired is False or not self._context.accumulate or self._ended:
            self._keys.cache.fresh[key] = spans
        self._fire(key, span, "on_time")

    def _delete_expired(self, slot: int, watermark: int) -> None:
        """Delete the expired spans of the keys in a slot."""
        fresh = self._keys.cache.fresh
        for key, _ in self._forgotten.at[slot].items():
            spans = self._spans(key)
            stay = self._unexpired(spans, watermark)
            if not stay:
                self._keys.delete(key)
            elif len(stay) < len(spans):
                fresh[key] = stay
            if stay and stay[-1].fired:  # the lateness was increased after its expiry was scheduled
                self._schedule_expiry(key, stay[-1])
        self._forgotten.drop(slot)

    def _unexpired(self, spans: list[SessionState[Any]], time: int) -> list[SessionState[Any]]:
        if len(spans) == 1:
            span = spans[0]
            return spans if not span.fired or self._expiry(span) > time else []
        stay: list[SessionState[Any]] = []
        for span in reversed(spans):
            # A span that has not fired still has a pane to emit, also if the lateness was reduced since.
            if not span.fired or self._expiry(span) > time or (stay and stay[0].first - span.last <= 2 * self._gap):
                stay.insert(0, span)
        return stay

    def _expiry(self, span: SessionState[Any]) -> int:
        """The watermark at which a span that has fired expires."""
        return span.last + self._gap + 1 + self._retention

    def next_due(self) -> int:
        """The watermark at which a session is due, or may be forgotten, in ms since epoch."""
        slot = self._forgotten.first()
        return self._timers.next_due() if slot is None else min(self._timers.next_due(), slot)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._keys.changed + self._timers.changed + self._forgotten.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._keys.changes(), self._timers.changes(), self._forgotten.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._keys.mark_committed()
        self._timers.mark_committed()
        self._forgotten.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._keys.caches(), self._timers.caches(), self._forgotten.caches())


def _first(span: SessionState[Any]) -> int:
    return span.first

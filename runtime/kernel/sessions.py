"""Session windows: per key the spans of time in which it was active; timers tell when a span may be over.

Two accepted messages are in one session iff a chain of gaps of at most `gap` joins them, whatever the order of arrival,
unless the session of one had been forgotten by then.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import chain
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ...dsl.message import Headers, PaneKind, Window
from .state import Change, KeyedState
from .timers import Timers
from .times import END
from .windows import Context, keyless

A = TypeVar("A")

SLOTS = 16
"""Slots of timers within a gap."""


class Span(Struct, Generic[A], array_like=True):
    """One session: its first and last message's time, what was gathered, and what has been emitted of it.

    `held` says that the accumulator holds messages; `fired` that nothing has come since its last pane; `standing` is
    the windows, as (start, end), of panes that nothing has replaced yet.
    """

    first: int
    last: int
    accumulator: A | None
    held: bool
    fired: bool
    standing: list[tuple[int, int]]


class Sessions(Struct, Generic[A], array_like=True):
    """The sessions of one key by start, and the earliest timer that was set for it."""

    timer: int
    spans: list[Span[A]]


class SessionOperator:
    """Sessions of one gap.

    A span that has fired stays as long as a message that is not late may join it: until the watermark is at its end +
    lateness + gap, and while the next span, that stays itself, is near enough for one message to join both. Then it is
    forgotten: later messages that are accepted, each a gap before the last, might lead back to any session of the past.
    """

    def __init__(self, context: Context, gap: int) -> None:
        self._context = context
        self._gap = gap
        self._fired = context.watermark
        kind: Any = Sessions[context.state_type]  # type: ignore[name-defined]
        self._keys = KeyedState(context.id, context.below, kind, _no_sessions, context.empty)
        self._timers = Timers(context.id, context.below, gap // SLOTS, context.empty, context.rouse)

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
        if key is None:
            raise keyless()
        gap, fresh = self._gap, self._keys.layer.fresh
        sessions: Sessions[Any] = fresh[key]
        joined = [span for span in sessions.spans if span.first - gap <= timestamp <= span.last + gap]
        last = max(timestamp, joined[-1].last) if joined else timestamp
        end = last + gap + 1
        if end + self._context.lateness <= watermark:
            self._context.late(key, value, timestamp, headers)
            return
        span = self._union(joined, value, timestamp, last)
        if len(joined) != 1:
            gone = {id(other) for other in joined}
            others = [other for other in sessions.spans if id(other) not in gone]
            sessions.spans = sorted([*others, span], key=_first)
        self._remember(fresh, key, sessions, end)
        if end <= self._fired:
            self._fire(key, span, "late")

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - of the key's sessions any
        # A timer that was set stays: it rings for nothing.
        return self._keys.layer.undo(key or b"")

    def _union(self, joined: list[Span[Any]], value: Any, timestamp: int, last: int) -> Span[Any]:
        """One span of those that the message joins, and the message itself; nothing changes if a function raises."""
        aggregate = self._context.aggregate
        merge: Any = aggregate.merge
        # What was emitted may still be on its way, and must not change.
        held = [deepcopy(span.accumulator) if span.fired else span.accumulator for span in joined if span.held]
        accumulator = held[0] if held else aggregate.init()
        for other in held[1:]:
            accumulator = merge(accumulator, other)
        accumulator = aggregate.add(accumulator, value)
        if len(joined) == 1:
            span = joined[0]
            span.first, span.last = min(span.first, timestamp), last
            span.accumulator, span.held, span.fired = accumulator, True, False
            return span
        first = min(timestamp, joined[0].first) if joined else timestamp
        standing = list(chain.from_iterable(span.standing for span in joined))
        return Span(first, last, accumulator, True, False, standing)

    def _remember(self, fresh: dict[bytes, Any], key: bytes, sessions: Sessions[Any], due: int) -> None:
        if due < sessions.timer:
            sessions.timer = due
            self._timers.set(due, key)
        fresh[key] = sessions

    def _fire(self, key: bytes, span: Span[Any], kind: PaneKind) -> None:
        window = Window(span.first, span.last + self._gap + 1)
        replaces = [Window(*past) for past in span.standing if past != (window.start, window.end)]
        span.standing = [(window.start, window.end)]
        span.fired = True
        self._context.pane(key, window, span.accumulator, kind, tuple(sorted(replaces)))
        if not self._context.accumulate:
            span.accumulator, span.held = None, False

    def advance(self, watermark: int) -> None:
        for time, keys in self._timers.ring(watermark):
            self._context.firing(time)
            self._fired = max(self._fired, time)
            for key in keys:
                self._ring(key, time)
        if watermark < END:
            self._fired = max(self._fired, watermark)

    def _ring(self, key: bytes, time: int) -> None:
        """Fire and forget what is due for a key by `time`, and set its next timer."""
        fresh = self._keys.layer.fresh
        sessions: Sessions[Any] = fresh[key]
        for span in sessions.spans:
            if not span.fired and span.last + self._gap < time:
                self._fire(key, span, "on_time")
        sessions.spans = self._staying(sessions.spans, time)
        if not sessions.spans:
            self._keys.delete(key)
            return
        sessions.timer = END
        due = min(due for due in map(self._due, sessions.spans) if due > time)
        self._remember(fresh, key, sessions, due)

    def _staying(self, spans: list[Span[Any]], time: int) -> list[Span[Any]]:
        stay: list[Span[Any]] = []
        for span in reversed(spans):
            if self._due(span) > time or (stay and stay[0].first - span.last <= 2 * self._gap):
                stay.insert(0, span)
        return stay

    def _due(self, span: Span[Any]) -> int:
        """When something next happens to a span: it fires, or is forgotten."""
        end = span.last + self._gap + 1
        return end + self._context.lateness + self._gap if span.fired else end

    def wake(self) -> int:
        return self._timers.wake()

    def changes(self) -> Iterator[Change]:
        return chain(self._keys.changes(), self._timers.changes())

    def settle(self, room: int) -> int:
        kept = self._keys.settle(room)
        return kept + self._timers.settle(room - kept)


def _no_sessions() -> Sessions[Any]:
    return Sessions(END, [])


def _first(span: Span[Any]) -> int:
    return span.first

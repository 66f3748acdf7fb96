"""Tumbling windows: an accumulator per window end and key; the ends are the timers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ....dsl.message import Headers, Window
from ..state_cache import Change, TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END
from .context import WindowContext


class TumblingOperator:
    """Windows of one size. State: end -> key -> accumulator, until the watermark reaches end + lateness."""

    def __init__(self, context: WindowContext, size: int) -> None:
        self._context = context
        self._size = size
        self._lateness = context.lateness
        self._fired = context.watermark
        self._pane = context.panes()
        self._state = TimeBucketedState(
            context.id, context.backend, context.state_type, context.aggregate.init, context.empty, context.schedule
        )
        self.add = self._add()

    def _add(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        # A closure over locals: this runs for each message.
        size, lateness, state, fold = self._size, self._lateness, self._state, self._context.aggregate.add
        late, fire, at, forgotten = self._context.late, self._fire, self._state.at, self._context.forgotten

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            end = timestamp - timestamp % size + size
            if key is None:
                raise keyless()
            if end + lateness <= watermark:
                late(key, value, timestamp, headers)
                return
            cache = at.get(end)
            if cache is None and end <= forgotten:
                late(key, value, timestamp, headers)
                return
            fresh = cache.fresh if cache is not None else state.fresh(end)
            fresh[key] = fold(fresh[key], value)
            # If a message in flight still holds the firing of this window back, the on-time pane has this message too.
            if end <= watermark and end <= self._fired:
                fire(end, key, fresh[key])

        return add

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that restores the window of a key that a message of this time falls into."""
        return self._state.undo(timestamp - timestamp % self._size + self._size, key or b"")

    def _fire(self, end: int, key: bytes, accumulator: Any) -> None:
        """Emit a late pane."""
        stays = self._context.accumulate
        self._pane(key, Window(end - self._size, end), accumulator, "late", stays=stays)
        if not stays:
            self._state.at[end].delete(key)

    def _fire_all(self, end: int, stays: bool) -> None:
        """Emit the on-time panes of all keys, and forget them unless state `stays`."""
        window, pane = Window(end - self._size, end), self._pane
        for key, accumulator in self._context.in_pieces(self._state.at[end].items()):
            pane(key, window, accumulator, "on_time", stays=stays)
        if not stays:
            self._state.drop(end)

    def advance(self, watermark: int) -> None:
        """Fire the windows that have ended, earliest first, and drop those that take no more messages."""
        if watermark < self.next_due():
            self._fired = watermark
            return
        for end in sorted(self._state.at):
            if self._fired < end <= watermark:
                self._context.firing(end)
                self._fired = end
                self._fire_all(end, self._context.accumulate and end + self._lateness > watermark)
            if end + self._lateness <= watermark and end in self._state.at:
                self._state.drop(end)
        if watermark < END:
            self._fired = watermark

    def next_due(self) -> int:
        """The watermark at which a window fires, or is dropped, in ms since epoch; END if there is no window."""
        return min((end if end > self._fired else end + self._lateness for end in self._state.at), default=END)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._state.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return self._state.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._state.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return self._state.caches()

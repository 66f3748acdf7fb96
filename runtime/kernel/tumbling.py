"""Tumbling windows: an accumulator per window end and key; the ends are the timers."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from ...dsl.message import Headers, PaneKind, Window
from .state import Change, Layer, TimedState
from .stateful import keyless
from .times import END
from .windows import Context

UNCHANGING = frozenset((int, float, str, bytes, bool, type(None)))
"""Types whose values nobody can change."""


class TumblingOperator:
    """Windows of one size. State: end -> key -> accumulator, until the watermark is at end + lateness."""

    def __init__(self, context: Context, size: int) -> None:
        self._context = context
        self._size = size
        self._lateness = context.lateness
        self._fired = context.watermark
        self._pane = context.panes()
        self._state = TimedState(
            context.id, context.below, context.state_type, context.aggregate.init, context.empty, context.rouse
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
            layer = at.get(end)
            if layer is None and end <= forgotten:
                late(key, value, timestamp, headers)
                return
            fresh = layer.fresh if layer is not None else state.fresh(end)
            if end > watermark:
                fresh[key] = fold(fresh[key], value)
            else:
                # What was emitted may still be on its way, and must not change.
                kept = fresh[key]
                fresh[key] = fold(kept if type(kept) in UNCHANGING else deepcopy(kept), value)
                # A window whose own firing is still to come, since a message before this one is under way, takes it
                # along.
                if end <= self._fired:
                    fire(end, key, fresh[key], "late")

        return add

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        return self._state.undo(timestamp - timestamp % self._size + self._size, key or b"")

    def _fire(self, end: int, key: bytes, accumulator: Any, kind: PaneKind) -> None:
        self._pane(key, Window(end - self._size, end), accumulator, kind)
        if not self._context.accumulate:
            self._state.at[end].delete(key)

    def _fire_all(self, end: int) -> None:
        """Show the panes on time of all keys."""
        window = Window(end - self._size, end)
        for key, accumulator in self._context.in_pieces(self._state.at[end].items()):
            self._pane(key, window, accumulator, "on_time")
        if not self._context.accumulate:
            self._state.drop(end)

    def advance(self, watermark: int) -> None:
        if watermark < self.wake():
            self._fired = watermark
            return
        for end in sorted(self._state.at):
            if self._fired < end <= watermark:
                self._context.firing(end)
                self._fired = end
                self._fire_all(end)
            if end + self._lateness <= watermark and end in self._state.at:
                self._state.drop(end)
        if watermark < END:
            self._fired = watermark

    def wake(self) -> int:
        return min((end if end > self._fired else end + self._lateness for end in self._state.at), default=END)

    @property
    def changed(self) -> int:
        return self._state.changed

    def changes(self) -> Iterator[Change]:
        return self._state.changes()

    def settle(self) -> None:
        self._state.settle()

    def layers(self) -> Iterable[Layer]:
        return self._state.layers()

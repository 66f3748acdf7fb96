"""Joins of two streams with `retain="latest"`: each row joins the latest row of the other stream."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ....dsl.message import Headers
from ..state_backend import Change
from ..state_cache import KeyedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END
from ..time.pausable import PausableFiring
from ..time.timers import Timers
from .join_context import SLOTS, JoinContext, JoinRow


class LatestJoinOperator:
    """Joins a row with the latest row of the other side, if they are less than `within` apart. State: key -> the latest
    left and right row; and a timer for each."""

    def __init__(self, context: JoinContext) -> None:
        self._context = context
        self._within = context.within
        self._passed = context.watermark
        self._firing = PausableFiring()
        id, backend, empty, schedule = context.id, context.backend, context.empty, context.schedule
        self._keys = KeyedState(id, backend, list[JoinRow | None], _no_rows, empty)
        self._timers = Timers(id, backend, self._within // SLOTS, empty, schedule, context.watermark)

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int) -> None:
        """Join a row with the latest one of the other side, and keep it if it is the latest of its own."""
        if key is None:
            raise keyless()
        context = self._context
        if timestamp < watermark or timestamp < self._passed:
            context.late()
            return
        row = context.row(side, value, timestamp, headers)
        fresh = self._keys.cache.fresh
        sides: list[JoinRow | None] = fresh[key]
        before, other = sides[side], sides[1 - side]
        sides[side] = row
        fresh[key] = sides
        self._timers.set(timestamp + self._within, key)
        if before is not None:
            context.leave(side, key, before)
        if other is not None and -self._within < other.time - timestamp < self._within:
            row.reported = other.reported = True
            context.join_from(side, key, row, other)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - of any time
        """A function that restores the two rows of a key."""
        # A timer that was set stays: it fires without effect.
        return self._keys.cache.undo(key or b"")

    def advance(self, watermark: int) -> bool:
        """Emit the rows that have joined none and no longer can, earliest first, and drop expired rows."""
        return self._firing.run(lambda: self._leave_all(watermark))

    def _leave_all(self, watermark: int) -> Iterator[None]:
        if watermark < END:
            self._passed = watermark
        for time, key in self._timers.fire(watermark):
            self._leave(key, time)
            if self._context.pauses():
                yield

    def _leave(self, key: bytes, time: int) -> None:
        """Remove the rows of a key that have expired by `time`, and set the timers of the others."""
        sides: list[JoinRow | None] = self._keys.cache.fresh[key]
        before = sides.copy()
        for side, row in sorted(enumerate(sides), key=_time_of_side):
            if row is None:
                continue
            over = row.time + self._within
            if over <= time:
                sides[side] = None
                self._context.firing(row.time)  # not behind it: other rows of this time may not have left yet
                self._context.leave(side, key, row)
            else:
                self._timers.set(over, key)
        if sides == [None, None]:
            self._keys.delete(key)
        elif sides != before:
            self._keys.cache.fresh[key] = sides

    def next_due(self) -> int:
        """The watermark at which the next row is due, in ms since epoch."""
        return self._timers.next_due()

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._keys.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._keys.changes(), self._timers.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._keys.mark_committed()
        self._timers.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._keys.caches(), self._timers.caches())


def _no_rows() -> list[JoinRow | None]:
    return [None, None]


def _time_of_side(pair: tuple[int, JoinRow | None]) -> int:
    return END if pair[1] is None else pair[1].time

"""Joins of two streams: rows by key and time, kept until only late rows could join them.

Rows are kept as bytes and decoded for each call, so that a user's function may change its arguments.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ....dsl.message import Headers
from ..state_backend import Change
from ..state_cache import LARGEST_KEY, KeyTooLarge, TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END
from ..time.pausable import PausableFiring
from ..time.timers import Timers
from .join_context import SLOTS, JoinContext, JoinRow


class JoinOperator:
    """Joins each two rows of a key that are at most `within` apart. State: time slot -> key -> its left and right rows,
    in the order of their times.

    A slot is `within` long. So the rows that may join a row lie in at most three slots, and a slot expires as a whole.
    Rows that may be emitted without a partner have timers: one for the first such row of a key in each timer slot.
    """

    def __init__(self, context: JoinContext) -> None:
        self._context = context
        self._within = context.within
        self._size = max(1, context.within)
        self._slot = max(1, context.within // SLOTS)
        self._passed = context.watermark
        self._firing = PausableFiring()
        id, backend, empty, schedule = context.id, context.backend, context.empty, context.schedule
        self._rows = TimeBucketedState(id, backend, list[list[JoinRow]], _none, empty, self._schedule)
        self._timers = Timers(id, backend, self._slot, empty, schedule, context.watermark, mark=b"r")
        self.add = self._adder()

    def _schedule(self, slot: int) -> None:
        self._context.schedule(slot + self._size + self._within)

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int, int], None]:
        # A closure over locals: this runs for each message.
        context, at, use, timers = self._context, self._rows.at, self._rows.fresh, self._timers
        within, size, encode, near, alone = self._within, self._size, context.encode, self._near, context.alone

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int) -> None:
            if key is None:
                raise keyless()
            if timestamp < watermark or timestamp < self._passed:
                context.late()
                return
            row = JoinRow(timestamp, None if value is None else encode[side](value), headers, not alone[side])
            own = timestamp - timestamp % size
            mine: list[list[JoinRow]] | None = None
            matches: list[JoinRow] = []
            for slot in (own - size, own, own + size):
                if (cache := at.get(slot)) is None:
                    continue
                # Inlined `cache.fresh[key]`: its default would cost a call, and most lookups find nothing.
                if (sides := cache.fresh.get(key)) is None and (key in cache.clean or not cache.complete):
                    sides = cache.fetch(key)
                if sides is None:
                    continue
                if slot == own:
                    mine = sides
                if sides[1 - side]:
                    matches += near(cache, key, sides, row, 1 - side)
            if mine is None:
                mine = _first_rows(key)
            rows = mine[side]
            if rows and rows[-1].time > timestamp:
                insort(rows, row, key=_time)
            else:
                rows.append(row)
            use(own)[key] = mine
            if not row.reported:
                timers.set(timestamp + within + 1, key)
            for other in matches:
                context.join_from(side, key, row, other)

        return add

    def _near(
        self, cache: WriteBackCache, key: bytes, sides: list[list[JoinRow]], row: JoinRow, side: int
    ) -> list[JoinRow]:
        """The rows of one side under a key that join a row, earliest first."""
        rows, within = sides[side], self._within
        first = bisect_left(rows, row.time - within, key=_time) if rows[0].time < row.time - within else 0
        last = len(rows) if rows[-1].time <= row.time + within else bisect_right(rows, row.time + within, key=_time)
        near = rows[first:last]
        if near:
            row.reported = True
            if not all(other.reported for other in near):
                for other in near:
                    other.reported = True
                cache.fresh[key] = sides
        return near

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that restores the rows of a key in the slots that a message may change."""
        # A timer that was set stays: it fires without effect.
        own = timestamp - timestamp % self._size
        near = [slot for slot in (own - self._size, own + self._size) if slot in self._rows.at]
        restores = [self._rows.undo(slot, key or b"", _rows_as_they_are) for slot in (own, *near)]

        def take_back() -> None:
            for restore in restores:
                restore()

        return take_back

    def advance(self, watermark: int) -> bool:
        """Emit the rows that have joined none and no longer can, earliest first, and drop expired slots."""
        return self._firing.run(lambda: self._leave_all(watermark))

    def _leave_all(self, watermark: int) -> Iterator[None]:
        if watermark < END:
            self._passed = watermark
        for time, key in self._timers.fire(watermark):
            self._leave(key, time)
            if self._context.pauses():
                yield
        while (slot := self._rows.first()) is not None and self._expiry(slot) <= watermark:
            self._rows.drop(slot)

    def _expiry(self, slot: int) -> int:
        return slot + self._size + self._within

    def _leave(self, key: bytes, time: int) -> None:
        """Remove the rows of a key that have expired by `time`. Emit those that have not joined, if the join is to."""
        last = time - self._within - 1
        slot = last - last % self._size
        # A key has one timer per timer slot. It may cover rows in two row slots.
        for cache in (self._rows.at.get(slot), self._rows.at.get(slot + self._size)):
            sides: list[list[JoinRow]] | None = cache.fresh[key] if cache is not None else None
            if cache is None or sides is None:
                continue
            gone: list[tuple[int, int, JoinRow]] = []
            for side, rows in enumerate(sides):
                over = bisect_right(rows, last, key=_time)
                gone += [(row.time, side, row) for row in rows[:over]]
                del rows[:over]
                self._set_next(key, rows, time)
            if gone and not any(sides):
                cache.delete(key)
            elif gone:
                cache.fresh[key] = sides
            for at, side, row in sorted(gone, key=_first):
                self._context.firing(at + 1)
                self._context.leave(side, key, row)

    def _set_next(self, key: bytes, rows: list[JoinRow], time: int) -> None:
        """Set a timer for the next row that expires in the slot whose timer has fired."""
        end = time - time % self._slot + self._slot
        for row in rows:
            due = row.time + self._within + 1
            if due >= end:
                return
            if not row.reported:
                self._timers.set(due, key)
                return

    def next_due(self) -> int:
        """The watermark at which a row is due or a slot expires, in ms since epoch."""
        slot = self._rows.first()
        return self._timers.next_due() if slot is None else min(self._timers.next_due(), self._expiry(slot))

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._rows.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._rows.changes(), self._timers.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._rows.mark_committed()
        self._timers.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._rows.caches(), self._timers.caches())


def _none() -> None:
    return None


def _first_rows(key: bytes) -> list[list[JoinRow]]:
    """The rows of a key that has none yet, of each side."""
    if len(key) > LARGEST_KEY:
        raise KeyTooLarge(key)
    return [[], []]


def _rows_as_they_are(sides: list[list[JoinRow]] | None) -> Callable[[], list[list[JoinRow]] | None]:
    """The snapshot of the rows of a key: a message adds rows and reports others, and changes nothing else of them."""
    if sides is None:
        return _none
    reported_rows = [[(row, row.reported) for row in rows] for rows in sides]

    def restore() -> list[list[JoinRow]]:
        for row, reported in chain.from_iterable(reported_rows):
            row.reported = reported
        return [[row for row, _ in rows] for rows in reported_rows]

    return restore


def _time(row: JoinRow) -> int:
    return row.time


def _first(pair: tuple[int, int, JoinRow]) -> int:
    return pair[0]

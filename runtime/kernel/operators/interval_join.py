"""Joins of two streams: rows by key and time, kept until no row that is not late could join them.

Rows are kept as bytes: what a function is given is its own.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from msgspec import Struct

from ....dsl.message import Headers
from ..state_cache import Bytes, Change, KeyedState, Layer, TimedState
from ..stateful_operator import keyless
from ..time.bounds import END
from ..time.timers import Timers

LEFT, RIGHT = 0, 1
"""The sides of a join."""

SLOTS = 16
"""Slots of timers within the time that a row is kept."""


class Row(Struct, array_like=True, gc=False):
    """A row that is kept; `told` says that nothing is to be emitted of it alone, now or ever."""

    time: int
    value: bytes | None
    headers: Headers
    told: bool


@dataclass(slots=True)
class JoinContext:
    """What a join is made with. `alone` says of each side whether rows are emitted that have joined none.

    `emit` hands a row on: key bytes, value, timestamp, headers; `fail` takes the error of one that has no value; `late`
    counts a row that came too late; for the rest see `windows.Context`.
    """

    id: str
    below: Bytes
    empty: bool
    watermark: int
    within: int
    alone: tuple[bool, bool]
    fn: Callable[[Any, Any], Any]
    encode: tuple[Callable[[Any], bytes], Callable[[Any], bytes]]
    decode: tuple[Callable[[bytes], Any], Callable[[bytes], Any]]
    emit: Callable[[bytes, Any, int, Headers], None]
    fail: Callable[[bytes, Any, int, Exception], None]
    late: Callable[[], None]
    rouse: Callable[[int], None]
    firing: Callable[[int], None]

    def row(self, side: int, value: Any, timestamp: int, headers: Headers) -> Row:
        """A row to keep."""
        return Row(timestamp, None if value is None else self.encode[side](value), headers, not self.alone[side])

    def join(self, key: bytes, left: Row | None, right: Row | None) -> None:
        """Emit what a left and a right row give, or one of them alone."""
        one = left or right
        if one is None:
            return
        timestamp = max(left.time, right.time) if left and right else one.time
        try:
            found = self.fn(self._value(left, LEFT), self._value(right, RIGHT))
        except Exception as error:
            # It is the failure of this pair: the rows are kept.
            self.fail(key, None, timestamp, error)
        else:
            self.emit(key, found, timestamp, one.headers)

    def _value(self, row: Row | None, side: int) -> Any:
        return None if row is None or row.value is None else self.decode[side](row.value)

    def join_from(self, side: int, key: bytes, row: Row, other: Row) -> None:
        """Emit what a row of that side and one of the other give."""
        self.join(key, *((row, other) if side == LEFT else (other, row)))

    def leave(self, side: int, key: bytes, row: Row) -> None:
        """A row is kept no longer: emit it alone, if it is to be told."""
        if not row.told:
            row.told = True
            self.join(key, *((row, None) if side == LEFT else (None, row)))


class JoinOperator:
    """Each two rows of a key that are at most `within` apart. State: slot of time -> key -> its left and right rows,
    in the order of their times.

    A slot is as long as `within`, so that what may join a row lies in three of them at most, and goes as a whole. Rows
    that may be emitted alone have timers, one for the first of a key in a slot of timers.
    """

    def __init__(self, context: JoinContext) -> None:
        self._context = context
        self._within = context.within
        self._size = max(1, context.within)
        self._slot = max(1, context.within // SLOTS)
        self._passed = context.watermark
        id, below, empty, rouse = context.id, context.below, context.empty, context.rouse
        self._rows = TimedState(id, below, list[list[Row]], _none, empty, self._rouse)
        self._timers = Timers(id, below, self._slot, empty, rouse, context.watermark, mark=b"r")
        self.add = self._adder()

    def _rouse(self, slot: int) -> None:
        self._context.rouse(slot + self._size + self._within)

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int, int], None]:
        # A closure over locals: this runs for each message.
        context, at, use, timers = self._context, self._rows.at, self._rows.fresh, self._timers
        within, size, encode, near = self._within, self._size, context.encode, self._near
        told = tuple(not alone for alone in context.alone)

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int) -> None:
            if key is None:
                raise keyless()
            if timestamp < watermark or timestamp < self._passed:
                context.late()
                return
            row = Row(timestamp, None if value is None else encode[side](value), headers, told[side])
            own = timestamp - timestamp % size
            mine: list[list[Row]] | None = None
            found: list[Row] = []
            for slot in (own - size, own, own + size):
                layer = at.get(slot)
                if layer is None:
                    continue
                # As `layer.fresh[key]`, which is a call where there is nothing yet: most often, that is.
                kept = layer.fresh.get(key)
                if kept is None and (key in layer.clean or not layer.complete):
                    kept = layer.fetch(key)
                if kept is None:
                    continue
                if slot == own:
                    mine = kept
                if kept[1 - side]:
                    found += near(layer, key, kept, row, 1 - side)
            if mine is None:
                mine = [[], []]
            rows = mine[side]
            if rows and rows[-1].time > timestamp:
                insort(rows, row, key=_time)
            else:
                rows.append(row)
            use(own)[key] = mine
            if not row.told:
                timers.set(timestamp + within + 1, key)
            for other in found:
                context.join_from(side, key, row, other)

        return add

    def _near(self, layer: Layer, key: bytes, kept: list[list[Row]], row: Row, side: int) -> list[Row]:
        """The rows of that side, of those kept under a key, that join a row, earliest first."""
        rows, within = kept[side], self._within
        first = bisect_left(rows, row.time - within, key=_time) if rows[0].time < row.time - within else 0
        last = len(rows) if rows[-1].time <= row.time + within else bisect_right(rows, row.time + within, key=_time)
        near = rows[first:last]
        if near:
            row.told = True
            if not all(other.told for other in near):
                for other in near:
                    other.told = True
                layer.fresh[key] = kept
        return near

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        # A timer that was set stays: it rings for nothing.
        own = timestamp - timestamp % self._size
        near = [slot for slot in (own - self._size, own + self._size) if slot in self._rows.at]
        restores = [self._rows.undo(slot, key or b"") for slot in (own, *near)]

        def take_back() -> None:
            for restore in restores:
                restore()

        return take_back

    def advance(self, watermark: int) -> None:
        if watermark < END:
            self._passed = watermark
        for time, key in self._timers.ring(watermark):
            self._leave(key, time)
        while (slot := self._rows.first()) is not None and self._over(slot) <= watermark:
            self._rows.drop(slot)

    def _over(self, slot: int) -> int:
        return slot + self._size + self._within

    def _leave(self, key: bytes, time: int) -> None:
        """Rows of a key whose time is over by then are joined no more."""
        last = time - self._within - 1
        slot = last - last % self._size
        # The one timer of a slot of timers may stand for rows of two slots of rows.
        for layer in (self._rows.at.get(slot), self._rows.at.get(slot + self._size)):
            kept: list[list[Row]] | None = layer.fresh[key] if layer is not None else None
            if layer is None or kept is None:
                continue
            gone: list[tuple[int, int, Row]] = []
            for side, rows in enumerate(kept):
                over = bisect_right(rows, last, key=_time)
                gone += [(row.time, side, row) for row in rows[:over]]
                del rows[:over]
                self._set_next(key, rows, time)
            if gone and not any(kept):
                layer.delete(key)
            elif gone:
                layer.fresh[key] = kept
            for at, side, row in sorted(gone, key=_first):
                self._context.firing(at + 1)
                self._context.leave(side, key, row)

    def _set_next(self, key: bytes, rows: list[Row], time: int) -> None:
        """Set the timer that the one of a slot stood for as well: that of the next row of that slot."""
        end = time - time % self._slot + self._slot
        for row in rows:
            due = row.time + self._within + 1
            if due >= end:
                return
            if not row.told:
                self._timers.set(due, key)
                return

    def wake(self) -> int:
        slot = self._rows.first()
        return self._timers.wake() if slot is None else min(self._timers.wake(), self._over(slot))

    @property
    def changed(self) -> int:
        return self._rows.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        return chain(self._rows.changes(), self._timers.changes())

    def settle(self) -> None:
        self._rows.settle()
        self._timers.settle()

    def layers(self) -> Iterable[Layer]:
        return chain(self._rows.layers(), self._timers.layers())


class LatestJoinOperator:
    """A row and the last one of the other side, if they are less than `within` apart. State: key -> the last left and
    right row; and a timer for each."""

    def __init__(self, context: JoinContext) -> None:
        self._context = context
        self._within = context.within
        self._passed = context.watermark
        id, below, empty, rouse = context.id, context.below, context.empty, context.rouse
        self._keys = KeyedState(id, below, list[Row | None], _no_rows, empty)
        self._timers = Timers(id, below, self._within // SLOTS, empty, rouse, context.watermark)

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int) -> None:
        if key is None:
            raise keyless()
        context = self._context
        if timestamp < watermark or timestamp < self._passed:
            context.late()
            return
        row = context.row(side, value, timestamp, headers)
        fresh = self._keys.layer.fresh
        kept: list[Row | None] = fresh[key]
        before, other = kept[side], kept[1 - side]
        kept[side] = row
        fresh[key] = kept
        self._timers.set(timestamp + self._within, key)
        if before is not None:
            context.leave(side, key, before)
        if other is not None and -self._within < other.time - timestamp < self._within:
            row.told = other.told = True
            context.join_from(side, key, row, other)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - whatever its time
        # A timer that was set stays: it rings for nothing.
        return self._keys.layer.undo(key or b"")

    def advance(self, watermark: int) -> None:
        if watermark < END:
            self._passed = watermark
        for time, key in self._timers.ring(watermark):
            self._leave(key, time)

    def _leave(self, key: bytes, time: int) -> None:
        """Rows of a key are joined no more, if that is their time."""
        kept: list[Row | None] = self._keys.layer.fresh[key]
        before = kept.copy()
        for side, row in sorted(enumerate(kept), key=_time_of_side):
            if row is None:
                continue
            over = row.time + self._within
            if over <= time:
                kept[side] = None
                self._context.firing(row.time + 1)
                self._context.leave(side, key, row)
            else:
                self._timers.set(over, key)
        if kept == [None, None]:
            self._keys.delete(key)
        elif kept != before:
            self._keys.layer.fresh[key] = kept

    def wake(self) -> int:
        return self._timers.wake()

    @property
    def changed(self) -> int:
        return self._keys.changed + self._timers.changed

    def changes(self) -> Iterator[Change]:
        return chain(self._keys.changes(), self._timers.changes())

    def settle(self) -> None:
        self._keys.settle()
        self._timers.settle()

    def layers(self) -> Iterable[Layer]:
        return chain(self._keys.layers(), self._timers.layers())


def _none() -> None:
    return None


def _no_rows() -> list[Row | None]:
    return [None, None]


def _time(row: Row) -> int:
    return row.time


def _first(pair: tuple[int, int, Row]) -> int:
    return pair[0]


def _time_of_side(pair: tuple[int, Row | None]) -> int:
    return END if pair[1] is None else pair[1].time

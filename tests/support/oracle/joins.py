"""Which rows join, and which are left without a partner: the oracle's half that knows joins."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from fluvial.dsl.message import Headers, Message
from fluvial.dsl.operators import JoinStreams
from oracle.wire import decode, encode


@dataclass(frozen=True)
class Row:
    """A message of one side, its value as bytes; `number` tells which came first."""

    encoded: bytes
    key: Any
    side: int
    value: bytes | None
    time: int
    headers: Headers
    number: int


@dataclass(frozen=True)
class Joined:
    """One result about to be emitted, of two rows or of one without a partner."""

    left: Row | None
    right: Row | None

    @property
    def rows(self) -> list[Row]:
        return [row for row in (self.left, self.right) if row is not None]

    @property
    def key(self) -> Any:
        return self.rows[0].key

    @property
    def timestamp(self) -> int:
        return max(row.time for row in self.rows)

    @property
    def headers(self) -> Headers:
        return self.rows[0].headers


class KeptRows:
    """The rows of one join over all keys, and the watermark that the join has seen. `types`: of its sides."""

    def __init__(self, operator: JoinStreams, types: tuple[Any, Any]) -> None:
        self._operator = operator
        self._types = types
        self._rows: tuple[Row, ...] = ()
        self._alone: frozenset[Row] = frozenset()  # those that have joined none so far
        self._came = 0
        self.watermark = -math.inf

    def snapshot(self) -> Any:
        return self._rows, self._alone

    def restore(self, snapshot: Any) -> None:
        self._rows, self._alone = snapshot

    def take(self, encoded: bytes, message: Message[Any], side: int) -> list[Joined] | Literal["late"]:
        """Put a message to the rows of its side; what it joins, after what it takes the place of."""
        if message.timestamp < self.watermark:
            return "late"
        self._came += 1
        data = None if message.value is None else encode(self._types[side], message.value)
        row = Row(encoded, message.key, side, data, message.timestamp, message.headers, self._came)
        partners = self._partners(row)
        # A row without a partner has its turn before the results of the row that took its place.
        found = self._forget(self._replaced(row))
        self._rows += (row,)
        self._alone |= {row}
        self._alone -= {row, *partners} if partners else set()
        return found + [self._together(row, partner) for partner in partners]

    def _partners(self, row: Row) -> list[Row]:
        """The rows that a row joins, by time and then as they came."""
        others = [one for one in self._rows if one.encoded == row.encoded and one.side != row.side]
        within = self._operator.within
        if self._operator.retain == "latest":
            latest = sorted(others, key=lambda one: one.number)[-1:]
            return [one for one in latest if abs(one.time - row.time) < within]
        near = [one for one in others if abs(one.time - row.time) <= within]
        return sorted(near, key=lambda one: (one.time, one.number))

    def _replaced(self, row: Row) -> list[Row]:
        if self._operator.retain == "all":
            return []
        return [one for one in self._rows if one.encoded == row.encoded and one.side == row.side]

    def next_due(self, watermark: float) -> Joined | None:
        """The next row without a partner, in the order of times, whose time is over when the watermark has come here.

        The rows before it are forgotten, and so is the row itself.
        """
        for row in sorted(self._rows, key=lambda row: (row.time, row.number)):
            if self._is_over(row, watermark) and (found := self._forget([row])):
                return found[0]
        return None

    def _is_over(self, row: Row, watermark: float) -> bool:
        end = row.time + self._operator.within
        return end <= watermark if self._operator.retain == "latest" else end < watermark

    def _forget(self, rows: list[Row]) -> list[Joined]:
        """Keep these rows no longer; what is emitted of them since they never joined."""
        told = {"inner": (), "left": (0,), "outer": (0, 1)}[self._operator.how]
        alone = [row for row in rows if row in self._alone and row.side in told]
        self._rows = tuple(row for row in self._rows if row not in rows)
        self._alone -= set(rows)
        return [self._together(row, None) for row in alone]

    def _together(self, row: Row, partner: Row | None) -> Joined:
        return Joined(row, partner) if row.side == 0 else Joined(partner, row)

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen."""
        self.watermark = watermark

    def value_of(self, joined: Joined) -> Any:
        """What the function makes of the rows, which it is given as read anew."""
        return self._operator.fn(self._read(joined.left, 0), self._read(joined.right, 1))

    def _read(self, row: Row | None, side: int) -> Any:
        return None if row is None or row.value is None else decode(self._types[side], row.value)

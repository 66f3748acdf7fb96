"""What joins of two streams share: the rows that they keep, and what they are made with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from ....dsl.message import Headers
from ..state_cache import StateBackend

LEFT, RIGHT = 0, 1
"""The sides of a join."""

SLOTS = 16
"""Slots of timers within the time that a row is kept."""


class JoinRow(Struct, array_like=True, gc=False):
    """A row that is kept. A row that is `reported` is not emitted alone, since it has joined or never may be."""

    time: int
    value: bytes | None
    headers: Headers
    reported: bool


@dataclass(slots=True)
class JoinContext:
    """What a join is made with. `alone` says of each side whether rows are emitted that have joined none.

    `emit` hands a row on: key bytes, value, timestamp, headers; `fail` takes the error of one that has no value; `late`
    counts a row that came too late; for the rest see `WindowContext`.
    """

    id: str
    backend: StateBackend
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
    schedule: Callable[[int], None]
    firing: Callable[[int], None]

    def row(self, side: int, value: Any, timestamp: int, headers: Headers) -> JoinRow:
        """A row to keep."""
        return JoinRow(timestamp, None if value is None else self.encode[side](value), headers, not self.alone[side])

    def join(self, key: bytes, left: JoinRow | None, right: JoinRow | None) -> None:
        """Emit what a left and a right row give, or one of them alone."""
        one = left or right
        if one is None:
            return
        timestamp = max(left.time, right.time) if left and right else one.time
        try:
            value = self.fn(self._value(left, LEFT), self._value(right, RIGHT))
        except Exception as error:
            # It is the failure of this pair: the rows are kept.
            self.fail(key, None, timestamp, error)
        else:
            self.emit(key, value, timestamp, one.headers)

    def _value(self, row: JoinRow | None, side: int) -> Any:
        return None if row is None or row.value is None else self.decode[side](row.value)

    def join_from(self, side: int, key: bytes, row: JoinRow, other: JoinRow) -> None:
        """Emit what a row of that side and one of the other give."""
        self.join(key, *((row, other) if side == LEFT else (other, row)))

    def leave(self, side: int, key: bytes, row: JoinRow) -> None:
        """A row is kept no longer: emit it alone, unless it is `reported`."""
        if not row.reported:
            row.reported = True
            self.join(key, *((row, None) if side == LEFT else (None, row)))

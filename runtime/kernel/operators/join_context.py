"""What joins of two streams share: their rows, and their environment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from ....dsl.message import Headers
from ...process.interruptions import INTERRUPTIONS
from ..state_backend import StateBackend

LEFT, RIGHT = 0, 1
"""The sides of a join."""

SLOTS = 16
"""Timer slots within the time that a row is kept."""


class JoinRow(Struct, array_like=True, gc=False):
    """A row that a join keeps. A `reported` row is not emitted alone: it has joined, or the join is inner."""

    time: int
    value: bytes | None
    headers: Headers
    reported: bool


@dataclass(slots=True)
class JoinContext:
    """The environment of a join. `alone` says for each side whether rows without a partner are emitted.

    `emit` passes on a joined row: key bytes, value, timestamp, headers. `fail` takes the error of a joined row that has
    no value, and `late` counts a late row. For the rest see `WindowContext`.
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
    fail: Callable[[bytes, Any, int, BaseException], None]
    late: Callable[[], None]
    schedule: Callable[[int], None]
    firing: Callable[[int], None]
    pauses: Callable[[], bool]

    def row(self, side: int, value: Any, timestamp: int, headers: Headers) -> JoinRow:
        """A message of one side as the row that the join keeps, with its value as bytes."""
        return JoinRow(timestamp, None if value is None else self.encode[side](value), headers, not self.alone[side])

    def join(self, key: bytes, left: JoinRow | None, right: JoinRow | None) -> None:
        """Emit the joined value of a left and a right row, or of one of them without a partner."""
        one = left or right
        if one is None:
            return
        timestamp = max(left.time, right.time) if left and right else one.time
        try:
            value = self.fn(self._value(left, LEFT), self._value(right, RIGHT))
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            # This pair has failed, not the message: the rows may join others.
            self.fail(key, None, timestamp, error)
        else:
            self.emit(key, value, timestamp, one.headers)

    def _value(self, row: JoinRow | None, side: int) -> Any:
        return None if row is None or row.value is None else self.decode[side](row.value)

    def join_from(self, side: int, key: bytes, row: JoinRow, other: JoinRow) -> None:
        """Emit the joined value of a row of this side and a row of the other side."""
        self.join(key, *((row, other) if side == LEFT else (other, row)))

    def leave(self, side: int, key: bytes, row: JoinRow) -> None:
        """A row has expired: emit it without a partner, unless it is `reported`."""
        if not row.reported:
            row.reported = True
            self.join(key, *((row, None) if side == LEFT else (None, row)))

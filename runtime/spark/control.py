"""What Spark's sources tell beside messages: the input has ended, or time has passed."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..clock import wall_clock
from .rows import Row, arrow_batch
from .shipping import Shipment
from .sources import end_of_input, passing_time

TICK_MS = 1000
"""Time is told in steps of that many ms: each is a batch, if there is nothing else to do."""


@dataclass
class EndOfInput(InputPartition):
    """The input has ended, for the `number`th time."""

    number: int


@dataclass
class PassingTime(InputPartition):
    """It is this time, in ms since epoch."""

    time: int


def told_time(before: int, *, wanted: bool) -> int:
    """The time that a source tells next, given the one before; the same if none is `wanted`."""
    now = wall_clock()
    return max(before, now - now % TICK_MS) if wanted else before


def words(ends: tuple[int, int], times: tuple[int, int]) -> list[InputPartition]:
    """What is to be told in a batch, given the number of ends and the time before and behind it."""
    found: list[InputPartition] = [PassingTime(times[1])] if times[0] < times[1] else []
    return [*found, EndOfInput(ends[1])] if ends[0] < ends[1] else found


def word_rows(partition: InputPartition, shipment: Shipment) -> pa.RecordBatch | None:
    """The rows that tell a word to all who are to hear it; None for a partition that is none."""
    made: Callable[[Shipment], list[Row]] | None = _ROWS.get(type(partition))
    return None if made is None else arrow_batch(made(shipment))


_ROWS: dict[type[InputPartition], Callable[[Shipment], list[Row]]] = {
    EndOfInput: end_of_input,
    PassingTime: passing_time,
}

"""What Spark's sources tell beside messages: the input has ended, or time has passed."""

from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...clock import wall_clock
from ..lowering.packaging import ShippedPlan
from ..rows import ProcessingTime, Row, arrow_batch
from .source_level import end_of_input_rows, processing_time_rows

TIME_STEP_MS = 1000
"""Time is told in steps of that many ms: each is a batch, if there is nothing else to do."""


@dataclass
class EndOfInputPartition(InputPartition):
    """The input has ended, for the `number`th time."""

    number: int


@dataclass
class ProcessingTimePartition(InputPartition):
    """It is this time, and silence counts from `since` at the earliest; both in ms since epoch."""

    time: int
    since: int


class SourceClock(msgspec.Struct, frozen=True):
    """What a source has told of time. It is part of its offsets, which Spark keeps before it runs a batch: a batch that
    is run again has the same time."""

    time: int = 0
    since: int = 0

    def advanced(self, since: int) -> "SourceClock":
        """The time now, in whole steps; silence counts from `since`, in ms since epoch, at the earliest."""
        now = wall_clock()
        time = now - now % TIME_STEP_MS
        return SourceClock(time, max(self.since, since)) if time > self.time else self


def control_partitions(ends: tuple[int, int], clocks: tuple[SourceClock, SourceClock]) -> list[InputPartition]:
    """What is to be told in a batch, given the number of ends and what was told of time before and behind it."""
    before, now = clocks
    found: list[InputPartition] = [ProcessingTimePartition(now.time, now.since)] if before.time < now.time else []
    return [*found, EndOfInputPartition(ends[1])] if ends[0] < ends[1] else found


def control_rows(partition: InputPartition, shipped: ShippedPlan) -> pa.RecordBatch | None:
    """The rows that tell a word to all who are to hear it; None for a partition that is none."""
    rows: list[Row] | None = None
    if isinstance(partition, ProcessingTimePartition):
        rows = processing_time_rows(shipped, ProcessingTime(partition.time, partition.since))
    elif isinstance(partition, EndOfInputPartition):
        rows = end_of_input_rows(shipped)
    return None if rows is None else arrow_batch(rows)

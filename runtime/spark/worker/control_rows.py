"""Control rows: what a source sends beside messages. They say that the input has ended, or give the processing time.

A source plans them as partitions of their own in a batch. Each becomes one row for every bucket of every level.
"""

from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...process.clock import wall_clock
from ..lowering.shipped_plan import ShippedPlan
from ..rows import ProcessingTime, Row, arrow_batch

TIME_STEP_MS = 1000
"""A source reports the time in steps of so many ms. Each step makes a batch, even if there are no messages."""


@dataclass
class EndOfInputPartition(InputPartition):
    """The input has ended, for the `number`th time over all runs."""

    number: int


@dataclass
class ProcessingTimePartition(InputPartition):
    """The processing time of a batch. A source counts as silent from `since` at the earliest. Both are in ms since
    epoch."""

    time: int
    since: int


class SourceClock(msgspec.Struct, frozen=True):
    """The processing time that a source has reported. It is part of the source's offsets. Spark stores them before it
    runs a batch, so a batch that is run again has the same time."""

    time: int = 0
    since: int = 0

    def advanced(self, since: int) -> "SourceClock":
        """The clock at the present time, in whole steps. A source counts as silent from `since` at the earliest."""
        now = wall_clock()
        time = now - now % TIME_STEP_MS
        return SourceClock(time, max(self.since, since)) if time > self.time else self


def control_partitions(ends: tuple[int, int], clocks: tuple[SourceClock, SourceClock]) -> list[InputPartition]:
    """The control partitions of a batch. `ends` counts the ends of input, and `clocks` has the time: each first as of
    the batch's start offsets, then as of its end offsets."""
    before, now = clocks
    times: list[InputPartition] = [ProcessingTimePartition(now.time, now.since)] if before.time < now.time else []
    return [*times, EndOfInputPartition(ends[1])] if ends[0] < ends[1] else times


def control_rows(partition: InputPartition, shipped: ShippedPlan) -> pa.RecordBatch | None:
    """The rows of a control partition, for every bucket; None for a partition that holds messages."""
    from .source_level import end_of_input_rows, processing_time_rows  # noqa: PLC0415 - who plans them needs no kernel

    rows: list[Row] | None = None
    if isinstance(partition, ProcessingTimePartition):
        rows = processing_time_rows(shipped, ProcessingTime(partition.time, partition.since))
    elif isinstance(partition, EndOfInputPartition):
        rows = end_of_input_rows(shipped)
    return None if rows is None else arrow_batch(rows)

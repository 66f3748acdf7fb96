"""Control rows: what a source sends beside messages, so that buckets run that have none.

A source plans them as partitions of their own in a batch: one for the buckets that have something due, and one for the
end of input, which comes to every bucket of every level. Each brings a report with the metrics of the batch, since it
may have no messages, whose tasks report them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..batch_report import BatchMetrics, BatchReport
from ..lowering.shipped_plan import ShippedPlan
from ..rows import EndOfInput, Row, Wake, arrow_batch, encode, for_all


@dataclass
class EndOfInputPartition(InputPartition):
    """The input has ended, for the `number`th time over all runs."""

    number: int


@dataclass
class DuePartition(InputPartition):
    """The driver has asked for a batch, for the `number`th time over all runs, as buckets are due."""

    number: int


def control_partitions(ends: tuple[int, int], requests: tuple[int, int]) -> list[InputPartition]:
    """The control partitions of a batch, given how many ends of input there were, and how many requests, as of the
    batch's start offsets and as of its end offsets."""
    due: list[InputPartition] = [DuePartition(requests[1])] if requests[0] < requests[1] else []
    return [*due, EndOfInputPartition(ends[1])] if ends[0] < ends[1] else due


def control_rows(partition: InputPartition, shipped: ShippedPlan) -> pa.RecordBatch | None:
    """The rows of a control partition; None for a partition that holds messages."""
    if not isinstance(partition, DuePartition | EndOfInputPartition):
        return None
    from ..batch_times import metrics_of_batch, times_of_batch  # noqa: PLC0415 - who plans partitions is no task

    ended = isinstance(partition, EndOfInputPartition)
    rows = end_rows(shipped) if ended else due_rows(shipped, times_of_batch().due)
    return arrow_batch([*rows, *metrics_rows(shipped, rows, metrics_of_batch())])


def metrics_rows(shipped: ShippedPlan, rows: Sequence[Row], metrics: BatchMetrics | None) -> list[Row]:
    """A report of the metrics beside control rows, by way of a bucket that they wake anyway; none without metrics."""
    from ..lowering.packaging import unpack  # noqa: PLC0415
    from .outputs import report_row  # noqa: PLC0415

    if metrics is None:
        return []
    label = rows[0][1] if rows else unpack(shipped)[0].buckets.labels[0]
    return [report_row(label, BatchReport(metrics=metrics))]


def end_rows(shipped: ShippedPlan) -> list[Row]:
    """The rows that tell every bucket of every level that the input has ended."""
    from ..lowering.packaging import unpack  # noqa: PLC0415 - who plans partitions needs no kernel

    bundle, _ = unpack(shipped)
    block = encode(EndOfInput())
    return [row for level in range(1, bundle.levels.count) for row in for_all(level, bundle.buckets, block)]


def due_rows(shipped: ShippedPlan, due: dict[int, list[int]]) -> list[Row]:
    """A row for each bucket that is due."""
    from ..lowering.packaging import unpack  # noqa: PLC0415

    labels, block = unpack(shipped)[0].buckets.labels, encode(Wake())
    return [(level, labels[bucket], block) for level, buckets in due.items() for bucket in buckets]

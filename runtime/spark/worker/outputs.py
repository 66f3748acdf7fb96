"""How messages leave a query: as rows to the query's sink, or written by the worker that has made them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ....dsl.message import Record
from ...systems.partitioner import partition_for
from ..batch_report import BatchReport
from ..rows import FRAMES, OUTPUT, Messages, Row, TaskReport, encode_report, message_blocks

Output = Callable[[Messages, int, int], Iterable[Row]]
"""Takes messages that leave the query, the number of the stage that made them, 0 where level 0 forwards messages, and
the label of the bucket. It writes them, or returns rows that carry them to the query's sink."""


class Outputs(Protocol):
    """Opens an output in a worker, where it is sent as a pickle. If the output closes without an error, all messages
    that it has taken are durable."""

    def __call__(self) -> AbstractContextManager[Output]:
        """Open the output for one task of Spark."""
        ...

    def failure_rows(self, report: BatchReport) -> list[Row]:
        """The rows by which the report of a task that has failed reaches whoever commits the batch."""
        ...


class RowOutputs:
    """Outputs by which all messages leave the query as rows."""

    def __call__(self) -> AbstractContextManager[Output]:
        """Open nothing."""
        return nullcontext(as_rows)

    def failure_rows(self, report: BatchReport) -> list[Row]:
        """One row for the driver, which publishes no batch with a failure."""
        return [report_row(0, report)]


def as_rows(messages: Messages, _: int, label: int) -> Iterator[Row]:
    """The messages as rows of the level OUTPUT, which later levels pass on to the query's sink."""
    return ((OUTPUT, label, block) for block in message_blocks(messages))


def frame_rows(messages: Messages, label: int) -> Iterator[Row]:
    """The messages as rows of the level FRAMES, which the driver makes a DataFrame of."""
    return ((FRAMES, label, block) for block in message_blocks(messages))


def report_row(label: int, report: BatchReport) -> Row:
    """What a task reports, as a row that travels to the sink, and from there to the driver."""
    return OUTPUT, label, encode_report(TaskReport(report))


def by_partition(messages: Messages, partitions: Mapping[str, int]) -> Iterable[tuple[int, list[Record]]]:
    """The messages as records, grouped by the partition of their stream that they go to. `partitions` has the number of
    partitions of each stream."""
    records: dict[int, list[Record]] = {}
    for partition, record in zip(partitions_of(messages, partitions[messages.stream]), messages.records(), strict=True):
        records.setdefault(partition, []).append(record)
    return records.items()


def partitions_of(messages: Messages, count: int) -> list[int]:
    """The partition of each message, of so many that its stream has. Those without a key go where their producer
    writes."""
    keyless = messages.producer % count
    return [keyless if key is None else partition_for(key, count) for key in messages.keys]

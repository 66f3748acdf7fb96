"""The partitions of a query's outputs, and the rows that carry messages to the task that writes a partition.

The rows pass through one more shuffle, behind all stages. Sorted, they have the messages of each partition in an order
that does not depend on which task of Spark was first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import NamedTuple

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ...systems.contract import StreamPartition
from ..batch_report import BatchReport
from ..key_buckets import partition_of
from ..rows import OUTPUT, Block, Messages, Row, TaskReport, decode, encode_report, positioned_blocks
from .outputs import Output, partitions_of

_ORDER = Struct(">IIQQ")
"""By what rows are sorted: the number of the partition, of the stage, of the producer, and the first position. They are
in front of a block, with the highest byte first, since Spark compares bytes one by one."""

_FAILURES = 0
"""In place of the number of a partition: a failure comes before all messages."""

_END = b"\xff" * 4
"""The block behind all others of a task."""


class OutputBlock(NamedTuple):
    """A block that a task of the sink gets: messages for a partition, or the report of a task that has failed, for
    none."""

    partition: StreamPartition | None
    block: Block


@dataclass(frozen=True)
class OutputPartitions:
    """The partitions of outputs, and how many `tasks` write them: the one at index i is written by task i mod n.
    `streams` has the number of partitions of each stream."""

    streams: Mapping[str, int]
    in_order: tuple[StreamPartition, ...]
    tasks: int

    @classmethod
    def of(cls, streams: Mapping[str, int], tasks: int, before: Sequence[StreamPartition] = ()) -> "OutputPartitions":
        """The partitions of these streams. Those that a run `before` had come first, as it had them."""
        all_of_them = ((stream, number) for stream, count in streams.items() for number in range(count))
        return cls(streams, tuple(dict.fromkeys([*before, *all_of_them])), tasks)

    def of_task(self, task: int) -> tuple[StreamPartition, ...]:
        """The partitions that a task writes."""
        return self.in_order[task :: self.tasks]

    def __call__(self) -> AbstractContextManager[Output]:
        """Open nothing: messages leave as rows."""
        return nullcontext(self._rows)

    def _rows(self, messages: Messages, stage: int, label: int) -> Iterator[Row]:
        indices: dict[int, list[int]] = {}
        for index, partition in enumerate(partitions_of(messages, self.streams[messages.stream])):
            indices.setdefault(partition, []).append(index)
        numbers = _numbers(self.in_order)
        for partition, chosen in sorted(indices.items()):
            number = numbers[messages.stream, partition]
            for position, block in positioned_blocks(messages.select(chosen)):
                order = _ORDER.pack(number + 1, stage, messages.producer, position)
                yield _levels(self.tasks)[number % self.tasks], label, order + block

    def failure_rows(self, report: BatchReport) -> list[Row]:
        """A row for each task of the sink: none of them writes anything."""
        block = _ORDER.pack(_FAILURES, 0, 0, 0) + encode_report(TaskReport(report))
        return [(level, 0, block) for level in _levels(self.tasks)]

    def end_rows(self) -> list[tuple[int, bytes]]:
        """The last row of each task of the sink, as level and block: one that has come to it has all rows."""
        return [(level, _END) for level in _levels(self.tasks)]

    def blocks(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[OutputBlock]:
        """The blocks of the rows that have come to a task of the sink, in their order. Raises SystemProblem behind them
        unless these are all rows: to a task that Spark ends early, its input looks as if it ended there."""
        complete = False
        for level, packed in rows:
            if packed == _END:
                complete = True
            else:
                yield self._block(level, packed)
        if not complete:
            wrong = "a task that writes outputs to Kafka has got a part of its rows: Spark has ended it before the rest"
            remedy = "see what has ended it; the next run writes the batch"
            raise SystemProblem(explain(wrong, "all rows of the task", remedy))

    def _block(self, level: int, packed: bytes) -> OutputBlock:
        if level == OUTPUT:
            return OutputBlock(None, decode(packed))
        number = _ORDER.unpack_from(packed)[0]
        partition = None if number == _FAILURES else self.in_order[number - 1]
        return OutputBlock(partition, decode(packed[_ORDER.size :]))


@cache
def _numbers(partitions: tuple[StreamPartition, ...]) -> dict[StreamPartition, int]:
    return {partition: number for number, partition in enumerate(partitions)}


@cache
def _levels(tasks: int) -> tuple[int, ...]:
    """The level of the rows of each task: levels above OUTPUT that Spark's hash brings to the task."""
    levels: dict[int, int] = {}
    level = OUTPUT
    while len(levels) < tasks:
        level += 1
        levels.setdefault(partition_of(level, tasks), level)
    return tuple(levels[task] for task in range(tasks))

"""Kafka as the end of a query under `exactly_once`: the outputs of a batch are seen once, however often it is run.

Outputs travel through one more shuffle to the tasks of the sink, each of which writes some partitions of the topics in
one transaction. A shuffle ends before a task behind it begins, so no transaction begins before all functions of the
pipeline have ended. The transaction has a marker for each partition: a task that runs again finds the marker of its
batch, and writes nothing. Its transactional id fences what an earlier attempt had still open. A task commits only if it
has come to a row behind all others: one that Spark ends, as another has failed, sees its input end early.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import pyarrow as pa

from ....dsl.errors import SystemProblem
from ....dsl.message import Record
from ....dsl.validation import explain
from ...process.clock import wall_clock
from ...state.checkpoint_path import CheckpointPath
from ...systems.contract import StreamPartition
from ...systems.errors import Fenced
from ...systems.kafka import BatchMarker, BatchMarkers, Cluster, KafkaRecordProducer
from ..atomic_file import read, write
from ..batch_report import BatchReport
from ..query.checkpoint_log import PLANNED, last_batch, logged_at
from ..rows import Messages, TaskReport
from ..worker.error_texts import checked_report
from ..worker.output_partitions import OutputBlock, OutputPartitions
from .kafka_format import parse_settings
from .written_counts import add_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_QUERIES = 16
"""The number of queries whose markers a worker process keeps a client for."""
LONGEST = timedelta(minutes=5)
"""How long a transaction may take that meets no errors: it has the share of one task in one batch."""

FORGOTTEN_SECONDS = 24 * 3600
"""Brokers forget the markers of a query that stands still, after a week if they are not told otherwise."""

_GROWN = (
    "%s: there are more partitions than before batch %d was cut off; this run writes to those that there were, the "
    "next one to all of them"
)
_log = logging.getLogger(__name__)

_REPORT_SCHEMA = "report binary"
_ARROW_SCHEMA = pa.schema([("report", pa.binary())])


class TransactionsRecord(msgspec.Struct, rename={"partitions": "places"}):
    """What is stored beside the checkpoint: the partitions of outputs, in the order in which tasks share them, the
    number of tasks, and that of each stream's partitions, which earlier versions did not store. The file names the
    partitions `places`."""

    partitions: list[StreamPartition] = []
    tasks: int = 0
    streams: dict[str, int] = {}


def output_partitions(
    file: CheckpointPath, streams: Mapping[str, int], tasks: int, unfinished: int | None
) -> OutputPartitions:
    """The partitions of these streams, shared by so many tasks. `file` has those of the run before.

    If that run has left a batch unfinished, each task writes the same partitions again. An attempt of that run which is
    still alive then has the transactional id of the task that writes its partitions now, and one fences the other. And
    each key goes to the partition that it had, even if its stream has more of them by now: a part of the batch may be
    written.
    """
    before = read(file, TransactionsRecord) if file.exists() else TransactionsRecord()
    if before.tasks and unfinished is not None:
        tasks = before.tasks
        grown = [name for name, count in streams.items() if count > before.streams.get(name, count)]
        if grown:
            _log.warning(_GROWN, ", ".join(grown), unfinished)
        streams = {name: min(count, before.streams.get(name, count)) for name, count in streams.items()}
    partitions = OutputPartitions.of(streams, tasks, before.partitions)
    write(file, msgspec.json.encode(TransactionsRecord(list(partitions.in_order), tasks, dict(streams))))
    return partitions


@dataclass(frozen=True)
class KafkaTarget:
    """Where the tasks of a sink write to. `settings` are those of the cluster as text, `group` the name of the query,
    which its transactional ids and the group of its markers have."""

    settings: str = field(repr=False)
    group: str
    partitions: OutputPartitions

    def cluster(self) -> Cluster:
        """The cluster, which this process connects to once."""
        return _cluster(os.getpid(), self.settings)

    def markers(self) -> BatchMarkers:
        """The markers of the batches that the query has written. A process makes one object for them."""
        return _markers(os.getpid(), self.settings, self.group)

    def producer(self, task: int) -> KafkaRecordProducer:
        """The producer of a task. It fences that of any earlier attempt."""
        streams = {stream for stream, _ in self.partitions.of_task(task)}
        return KafkaRecordProducer(self.cluster(), f"{self.group}-{task}", longest=LONGEST, streams=tuple(streams))


@cache
def _cluster(_: int, settings: str) -> Cluster:
    return Cluster(parse_settings(settings))


@lru_cache(maxsize=MOST_QUERIES)
def _markers(process: int, settings: str, group: str) -> BatchMarkers:
    return BatchMarkers(_cluster(process, settings), group)


class TransactionalSink:
    """The `BatchSink` that writes the outputs of each batch once. `unfinished` is the batch that an earlier run has
    begun and not ended. `wall` returns the time now, in ms since epoch."""

    def __init__(
        self,
        target: KafkaTarget,
        checkpoint: CheckpointPath,
        counts: CheckpointPath,
        unfinished: int | None,
        wall: Callable[[], int] = wall_clock,
    ) -> None:
        self._target, self._checkpoint, self._counts, self._wall = target, checkpoint, counts, wall
        self._again = unfinished

    @property
    def outputs(self) -> OutputPartitions:
        """Outputs leave the query as rows, each for one partition."""
        return self._target.partitions

    def check(self) -> None:
        """Raise SystemProblem where Kafka has the outputs of a batch that is not planned: the checkpoint is an old one,
        and its batches may have other messages. So for a batch that was cut off so long ago that its markers may be
        gone."""
        batch, target, planned = self._again, self._target, last_batch(self._checkpoint, PLANNED)
        # No task has fenced yet what a run before may have open.
        markers = target.markers().read(target.partitions.in_order, settled=False)
        for partition, marker in markers.items():
            if marker.batch > planned:
                raise _older(target.group, planned, partition, marker, self._checkpoint)
        age = 0.0 if batch is None else self._wall() / 1000 - logged_at(self._checkpoint, PLANNED, batch)
        if age > FORGOTTEN_SECONDS and not markers:
            wrong = (
                f"batch {batch} of {target.group!r} was cut off {age / 3600:,.0f} hours ago, and Kafka has no marker "
            )
            wrong += "of it: whether its outputs are there is not known"
            expected = f"the offsets of the group {target.group!r}, which brokers keep for offsets.retention.minutes"
            remedy = "run once with the guarantee at_least_once, by which the batch is written again"
            raise SystemProblem(explain(wrong, expected, remedy, self._checkpoint))

    def run(self, rows: "DataFrame", batch: int) -> BatchReport:
        """Run a batch, and write its outputs unless they are written already."""
        partitions = self._target.partitions
        numbers = rows.sparkSession.range(0, partitions.tasks, 1, 1)
        complete = rows.select("level", "block").union(numbers.selectExpr(*_expressions(partitions.end_rows())))
        ordered = complete.repartition(partitions.tasks, "level").sortWithinPartitions("level", "block")
        written = ordered.mapInArrow(_writer(self._target, batch, again=batch == self._again), _REPORT_SCHEMA).collect()
        report = checked_report(msgspec.json.decode(row.report, type=BatchReport) for row in written)
        add_counts(self._counts, batch, report.counts)
        return report


def _writer(
    target: KafkaTarget, batch: int, *, again: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - there is one in a worker alone

        context = TaskContext.get()
        assert context is not None
        task = SinkTask(target, batch, context.partitionId(), again=again or context.attemptNumber() > 0)
        report = task.write(target.partitions.blocks(_rows(batches)))
        yield pa.RecordBatch.from_pylist([{"report": msgspec.json.encode(report)}], schema=_ARROW_SCHEMA)

    return write_rows


def _expressions(rows: Sequence[tuple[int, bytes]]) -> tuple[str, str]:
    """Expressions of Spark's SQL that make rows of level and block of their numbers, which are in the column `id`."""
    levels = ", ".join(str(level) for level, _ in rows)
    blocks = ", ".join(f"X'{block.hex()}'" for _, block in rows)
    number = "CAST(id AS INT) + 1"
    return f"element_at(array({levels}), {number}) AS level", f"element_at(array({blocks}), {number}) AS block"


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(batch.column("level").to_pylist(), batch.column("block").to_pylist(), strict=True)


class SinkTask:
    """One task of the sink, in one batch. One that is known to run `again` fences attempts before it even if it has
    nothing to write."""

    def __init__(self, target: KafkaTarget, batch: int, number: int, *, again: bool = False) -> None:
        self._target, self._batch, self._number, self._again = target, batch, number, again
        self._digests: dict[StreamPartition, int] = {}

    def write(self, blocks: Iterator[OutputBlock]) -> BatchReport:
        """Write the messages of sorted blocks in one transaction, and return the reports among the blocks."""
        report = BatchReport()
        for partition, block in blocks:
            if isinstance(block, TaskReport):
                report.add(block.report)
            elif isinstance(block, Messages) and report.failure is None:
                assert partition is not None
                # Reports come before messages.
                self._write(chain([OutputBlock(partition, block)], blocks))
        if not self._digests and report.failure is None:
            self._write_nothing()
        return report

    def _write_nothing(self) -> None:
        """Raise SystemProblem if an attempt before has written something."""
        if self._again:
            self._write(iter(()))
        else:
            # Where Spark runs a whole stage again, for an executor is lost, it counts attempts from 0.
            self._check(self._written())

    def _write(self, blocks: Iterator[OutputBlock]) -> None:
        with closing(self._target.producer(self._number)) as producer:
            try:
                self._write_by(producer, blocks)
            except Fenced as fenced:
                # As an error that the driver knows.
                raise (fenced.lapsed if producer.is_overdue else SystemProblem(str(fenced))) from fenced

    def _write_by(self, producer: KafkaRecordProducer, blocks: Iterator[OutputBlock]) -> None:
        target = self._target
        written = self._written()  # behind the fence: no attempt before can commit any more
        producer.begin()
        for partition, block in blocks:
            assert partition is not None
            assert isinstance(block, Messages)
            records = block.records()
            self._digests[partition] = self._digests.get(partition, 0) + _digest(records)
            if partition not in written:
                producer.send(*partition, records)
        self._check(written)
        marked = {
            partition: BatchMarker(self._batch, digest & _WORD)
            for partition, digest in self._digests.items()
            if partition not in written
        }
        if marked:
            producer.mark(target.markers(), marked)
            producer.commit()

    def _written(self) -> dict[StreamPartition, BatchMarker]:
        """The markers of this batch, and of later ones."""
        markers = self._target.markers().read(self._target.partitions.of_task(self._number))
        return {partition: marker for partition, marker in markers.items() if marker.batch >= self._batch}

    def _check(self, written: dict[StreamPartition, BatchMarker]) -> None:
        """Raise SystemProblem unless what is written is what this attempt would write."""
        for (stream, partition), marker in written.items():
            if marker.batch > self._batch:
                raise _older(self._target.group, self._batch, (stream, partition), marker)
            if marker.digest != self._digests.get((stream, partition), 0) & _WORD:
                wrong = (
                    f"batch {self._batch} of {self._target.group!r} is run again after a crash, and would write other "
                )
                wrong += f"messages to {stream} [{partition}] than those that are there"
                expected = "functions that return the same for the same messages"
                remedy = "run once with the guarantee at_least_once, by which the whole batch is written again"
                raise SystemProblem(explain(wrong, expected, remedy))


def _older(group: str, batch: int, partition: StreamPartition, marker: BatchMarker, at: object = None) -> SystemProblem:
    """The error for a checkpoint that is older than its outputs: it has come up to this batch."""
    stream, number = partition
    wrong = f"the checkpoint of {group!r} has come to batch {batch}, but {stream} [{number}] has the outputs of batch "
    wrong += f"{marker.batch} already"
    remedy = "put back the checkpoint as the last run left it, or start over with fluvial reset --all; see that no "
    remedy += "other run uses a copy of it"
    return SystemProblem(explain(wrong, "a checkpoint that is as new as its outputs", remedy, at))


# The sum grows with each record. Eight bytes of it tell batches apart as well, and are short in the metadata of an
# offset.
_WORD = (1 << 64) - 1


def _digest(records: Iterable[Record]) -> int:
    """A number that other records are not likely to have. Their order does not count: calls in flight may end in
    another one."""
    total = 0
    for key, value, time_ms, headers in records:
        checksum = crc32(value or b"", crc32(key or b"", time_ms & 0xFFFFFFFF))
        for name, content in headers:
            checksum = crc32(content or b"", crc32(name.encode(), checksum))
        total += (checksum << 32) + 1
    return total

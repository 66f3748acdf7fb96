"""Level 0: from the sources to the first shuffle, in one pass.

It runs the stages that keep no state and read sources alone. The messages of other sources it forwards to their
buckets unchanged. It reports the watermark of each source partition to the driver.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Protocol

from ....dsl.message import Record
from ....planner.stream_names import dead_letters
from ...kernel.code.source_code import times_reader
from ...kernel.failures import FailedRecord, Failures
from ...kernel.stage import StageTask
from ...kernel.time.bounds import START
from ...kernel.time.position import Position
from ...process.gc_tuning import reduced_gc
from ...process.interruptions import INTERRUPTIONS
from ...state.memory import MemoryStore
from ...systems.contract import RecordBatch
from ..batch_report import BatchReport
from ..batch_times import metrics_of_batch
from ..counts import Counts
from ..lowering.levels import producer_number
from ..lowering.packaging import PlanBundle, unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import TASK_BITS, Messages, Row, by_bucket, messages_of
from .error_texts import sendable_errors
from .output_router import RowRouter
from .outputs import Output, as_rows, frame_rows, report_row
from .stage_feeder import StageFeeder
from .task_sinks import TaskSinks
from .worker_process import this_process

MOST_RECORDS, MOST_BYTES = 50_000, 16 << 20
"""At about so many records of a partition, or bytes of their values, level 0 makes rows of them."""


_TASKS = 1 << 20
"""Numbers from here on are those of tasks, and no source partition has them."""


class _SourcePartition(Protocol):
    """One source partition at level 0, in one batch."""

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        """Feed records, and add the rows that they make."""
        ...

    def finish(self, rows: list[Row]) -> None:
        """Add the row of the report."""
        ...


def level_zero(
    shipped: ShippedPlan,
    stream: str,
    partition: int,
    batches: Iterable[RecordBatch],
    output: Output = as_rows,
    most: int = MOST_RECORDS,
    task: int | None = None,
) -> Iterator[list[Row]]:
    """Feed what one of Spark's batches holds of a source partition to the stage, and yield the rows for later levels,
    those of `most` records at a time. `task` is the number of the task where several read the partition."""
    bundle, _ = unpack(shipped)
    forwarded = stream in bundle.levels.forwarded
    with sendable_errors(bundle.plan.name), reduced_gc(), StageFeeder() as feeder, ExitStack() as stack:
        source_partition: _SourcePartition = (
            _ForwardedPartition(bundle, stream, partition, output, task)
            if forwarded
            else _ProcessedPartition(shipped, bundle, stream, partition, output, stack, task)
        )
        for batch in _gathered(batches, most):
            rows: list[Row] = []
            source_partition.process(feeder, batch.offsets, batch.records, rows)
            yield rows
        last_rows: list[Row] = []
        source_partition.finish(last_rows)
        yield last_rows


def _gathered(batches: Iterable[RecordBatch], most: int) -> Iterator[RecordBatch]:
    """The records in larger batches, since each makes a row for every bucket that has a key of it."""
    held: list[RecordBatch] = []
    records = size = 0
    for batch in batches:
        held.append(batch)
        records, size = records + len(batch.records), size + _size(batch)
        if records >= most or size >= MOST_BYTES:
            yield _joined(held)
            held, records, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(held: Sequence[RecordBatch]) -> RecordBatch:
    if len(held) == 1:
        return held[0]
    offsets = list(chain.from_iterable(batch.offsets for batch in held))
    records = list(chain.from_iterable(batch.records for batch in held))
    return RecordBatch(held[0].stream, held[0].partition, offsets, records)


def _size(batch: RecordBatch) -> int:
    return sum(len(value) for _, value, _, _ in batch.records if value is not None)


def _watermark_to_report(stream: str, partition: int, watermark: int) -> dict[str, int]:
    return {f"{stream}/{partition}": watermark} if watermark > START else {}


def _first_position(task: int | None) -> int:
    """The position of the first output of a task. Those of several tasks that are one producer are not the same."""
    return 0 if task is None else task << TASK_BITS


def _forwarded_number(bundle: PlanBundle, stream: str, partition: int) -> int:
    """The number of a source partition among all of sources that level 0 forwards: each is a producer of dead
    letters."""
    names = sorted(bundle.levels.forwarded)
    return sum(bundle.levels.producers[name] for name in names[: names.index(stream)]) + partition


class _ProcessedPartition:
    """A source partition that a stage without state processes at level 0."""

    def __init__(
        self,
        shipped: ShippedPlan,
        bundle: PlanBundle,
        stream: str,
        partition: int,
        output: Output,
        stack: ExitStack,
        task: int | None,
    ) -> None:
        stage = next(stage for stage in bundle.plan.stages if stream in stage.inputs)
        producer = producer_number(bundle.plan, stage, stream, partition)
        self._stream, self._partition, self._read = stream, partition, 0
        self._task = StageTask(this_process().program(shipped, stage.id), MemoryStore(), position=Position())
        for other in stage.inputs:
            if other != stream:  # the partitions of other inputs have tasks and watermarks of their own
                self._task.inputs.ends.end(other)
        # What leaves the query passes through all shuffles: any bucket will do.
        self._label = bundle.buckets.labels[producer % bundle.buckets.count]
        # Not the number of the task: Spark's connector to Kafka gives the partitions of a batch that is run again to
        # its tasks in another order.
        self._sinks = TaskSinks(shipped, stack, producer if task is None else _TASKS + task)
        first = _first_position(task)
        self._router = RowRouter(shipped, stage.id, producer, self._label, output, self._sinks, first)

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        self._read += len(records)
        feeder.feed(self._task, self._stream, self._partition, offsets, records)
        self._router.route_outputs(self._task, rows)

    def finish(self, rows: list[Row]) -> None:
        self._sinks.flush()
        watermark = _watermark_to_report(self._stream, self._partition, self._task.inputs.watermark())
        counts = self._router.counts(self._task, {self._stream: self._read})
        rows.append(report_row(self._label, BatchReport(Counts(counts, watermark), metrics=metrics_of_batch())))


class _ForwardedPartition:
    """A source partition that a stage with state reads at a later level. Level 0 only reads the messages' times."""

    def __init__(self, bundle: PlanBundle, stream: str, partition: int, output: Output, task: int | None) -> None:
        self._bundle, self._stream, self._partition, self._output = bundle, stream, partition, output
        self._first = _first_position(task)
        self._label = bundle.buckets.labels[partition % bundle.buckets.count]
        pipeline = bundle.plan.pipeline
        self._source = next(source for source in pipeline.sources if source.stream == stream)
        self._read_times = times_reader(self._source)
        self._failures = Failures(pipeline, limit=bundle.limits.get(dead_letters(bundle.plan.name)))
        self._high = START
        self._read = 0

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        self._read += len(records)
        messages = messages_of(self._stream, self._partition, offsets, records)
        # Messages keep their own timestamps here: one that fails at a later level becomes a dead letter as it came.
        timed: Messages | None = messages
        try:
            times = self._times(messages)
        except INTERRUPTIONS:
            raise
        # One message fails all of them: find out which, and let that fail alone.
        except BaseException:
            timed, times = self._one_by_one(messages)
        if timed is not None:
            self._high = max(self._high, *times)
            bundle = self._bundle
            rows.extend(by_bucket(bundle.levels.of_stream[self._stream], bundle.buckets, timed))

    def _one_by_one(self, messages: Messages) -> tuple[Messages | None, list[int]]:
        """The messages whose time can be read, None if there are none, and their times. The others have failed."""
        timed: list[int] = []
        times: list[int] = []
        for index, record in enumerate(messages.records()):
            try:
                times += self._times(messages.select([index]))
                timed.append(index)
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                failed = FailedRecord(self._stream, self._partition, messages.positions[index], record)
                self._failures.message(failed, error, self._source.id)
        return (messages.select(timed) if timed else None), times

    def _times(self, messages: Messages) -> list[int]:
        """The time of each message. Raises the error of the first message whose time cannot be read."""
        return self._read_times(messages.keys, messages.values, messages.times)

    def finish(self, rows: list[Row]) -> None:
        bundle, failures = self._bundle, self._failures
        watermark = self._high - self._source.out_of_order if self._high > START else START
        # Messages that do not fail here are counted as given at the level at which the source's stage runs.
        counts = {"read": {self._stream: self._read}, "given": failures.counts, "failed": failures.counts}
        totals = Counts(counts, _watermark_to_report(self._stream, self._partition, watermark))
        if failures.dead_letters:
            letters = dead_letters(bundle.plan.name)
            totals.by_kind["written"] = {letters: len(failures.dead_letters)}
            producer, first = _forwarded_number(bundle, self._stream, self._partition), self._first
            positions = range(first, first + len(failures.dead_letters))
            messages = messages_of(letters, producer, positions, failures.dead_letters)
            if letters in bundle.frames:
                rows.extend(frame_rows(messages, self._label))
            else:
                rows.extend(self._output(messages, 0, self._label))
        rows.append(report_row(self._label, BatchReport(totals, metrics=metrics_of_batch())))

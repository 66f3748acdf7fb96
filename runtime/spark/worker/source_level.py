"""Level 0: from the sources to the first shuffle, in one pass.

It runs the stages that keep no state and read sources alone. Messages that a later level needs as they are it brings to
their bucket; and it tells every bucket how far each source partition has come.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from ....dsl.message import Record
from ....planner.stream_names import dead_letters
from ...kernel.failures import Failures, Where
from ...kernel.stage import StageTask
from ...kernel.time.bounds import START
from ...kernel.time.position import Position
from ...kernel.time.source_time import times_reader
from ...state.memory import MemoryStore
from ...systems.contract import RecordBatch
from ..counts import Tally
from ..lowering.levels import producer_number
from ..lowering.packaging import PlanBundle, ShippedPlan, program, unpack
from ..rows import OUTPUT, Counts, EndOfInput, Messages, ProcessingTime, Row, Watermark, by_bucket, encode, messages_of
from .output_router import RowRouter, watermarks
from .outputs import Output, as_rows
from .stage_feeder import StageFeeder


class _SourcePartition(Protocol):
    """One source partition on its way through level 0."""

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        """Take messages in, and add what they make."""
        ...

    def finish(self, rows: list[Row]) -> None:
        """Add how far time has come, and what was counted."""
        ...


def level_zero(
    shipped: ShippedPlan, stream: str, partition: int, batches: Iterable[RecordBatch], output: Output = as_rows
) -> Iterator[list[Row]]:
    """Bring what a batch of Spark's holds of one source partition through level 0."""
    bundle, _ = unpack(shipped)
    forwarded = stream in bundle.levels.forwarded
    with StageFeeder() as feeder, ExitStack() as stack:
        source_partition: _SourcePartition = (
            _ForwardedPartition(bundle, stream, partition, output)
            if forwarded
            else _ProcessedPartition(shipped, bundle, stream, partition, output, stack)
        )
        for batch in batches:
            rows: list[Row] = []
            source_partition.process(feeder, batch.offsets, batch.records, rows)
            yield rows
        rest: list[Row] = []
        source_partition.finish(rest)
        yield rest


def end_of_input_rows(shipped: ShippedPlan) -> list[Row]:
    """Tell every bucket of every level that the input has ended."""
    return _to_all(shipped, EndOfInput())


def processing_time_rows(shipped: ShippedPlan, tick: ProcessingTime) -> list[Row]:
    """Tell every bucket of every level the time."""
    return _to_all(shipped, tick)


def _to_all(shipped: ShippedPlan, word: EndOfInput | ProcessingTime) -> list[Row]:
    bundle, _ = unpack(shipped)
    levels = range(1, bundle.levels.count)
    return [(level, bucket, encode(word)) for level in levels for bucket in range(bundle.buckets)]


def _told(stream: str, partition: int, watermark: int) -> dict[str, int]:
    return {f"{stream}/{partition}": watermark} if watermark > START else {}


class _ProcessedPartition:
    """A partition whose messages a stage without state processes."""

    def __init__(
        self,
        shipped: ShippedPlan,
        bundle: PlanBundle,
        stream: str,
        partition: int,
        output: Output,
        stack: ExitStack,
    ) -> None:
        stage = next(stage for stage in bundle.plan.stages if stream in stage.inputs)
        producer = producer_number(bundle.plan, stage, stream, partition)
        self._stream, self._partition, self._read = stream, partition, 0
        self._task = StageTask(program(shipped, stage.id), MemoryStore(), position=Position())
        for other in stage.inputs:
            if other != stream:  # its partitions are on their own ways, and tell their own time
                self._task.inputs.end(other)
        self._router = RowRouter(bundle, stage.id, producer, producer % bundle.buckets, output, stack)

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        self._read += len(records)
        feeder.feed(self._task, self._stream, self._partition, offsets, records)
        self._router.route_outputs(self._task, rows)

    def finish(self, rows: list[Row]) -> None:
        self._router.flush()
        self._router.route_watermarks(self._task, rows)
        told = _told(self._stream, self._partition, self._task.inputs.watermark())
        self._router.route_counts(self._task, {self._stream: self._read}, rows, told)


class _ForwardedPartition:
    """A partition whose messages a stage with state needs: only their time is looked at here."""

    def __init__(self, bundle: PlanBundle, stream: str, partition: int, output: Output) -> None:
        self._bundle, self._stream, self._partition, self._output = bundle, stream, partition, output
        pipeline = bundle.plan.pipeline
        self._source = next(source for source in pipeline.sources if source.stream == stream)
        self._read_times = times_reader(self._source)
        self._failures = Failures(pipeline)
        self._high = START
        self._read = 0

    def process(self, feeder: StageFeeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        self._read += len(records)
        found = messages_of(self._stream, self._partition, offsets, records)
        # They go on as they came, with their own times: what fails further on is set aside so.
        told: Messages | None = found
        try:
            times = self._times(found)
        except Exception:
            told, times = self._one_by_one(found)
        if told is not None:
            self._high = max(self._high, *times)
            bundle = self._bundle
            rows.extend(by_bucket(bundle.levels.of_stream[self._stream], bundle.buckets, told))

    def _one_by_one(self, found: Messages) -> tuple[Messages | None, list[int]]:
        """The messages that have a time, if there are any, and those times; the others are failures."""
        kept: list[int] = []
        times: list[int] = []
        for index, record in enumerate(found.records()):
            try:
                times += self._times(found.taken([index]))
                kept.append(index)
            except Exception as error:
                where = Where(self._stream, self._partition, found.positions[index], record)
                self._failures.message(where, error, self._source.id)
        return (found.taken(kept) if kept else None), times

    def _times(self, messages: Messages) -> list[int]:
        """The time of each message. Raises what a message fails with."""
        return self._read_times(messages.keys, messages.values, messages.times)

    def finish(self, rows: list[Row]) -> None:
        bundle, failures = self._bundle, self._failures
        watermark = self._high - self._source.out_of_order if self._high > START else START
        rows.extend(watermarks(bundle, Watermark(self._stream, self._partition, watermark)))
        # Those that do not fail here are given to the source's operators, and counted, where its stage runs.
        counts = {"read": {self._stream: self._read}, "given": failures.counts, "failed": failures.counts}
        tally = Tally(counts, _told(self._stream, self._partition, watermark))
        if failures.letters:
            letters = dead_letters(bundle.plan.name)
            tally.counts["written"] = {letters: len(failures.letters)}
            made = messages_of(letters, self._partition, range(len(failures.letters)), failures.letters)
            rows.extend(self._output(made, 0))
        rows.append((OUTPUT, 0, encode(Counts(tally))))

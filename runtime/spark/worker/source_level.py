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
from ...systems.contract import Batch
from ..counts import Tally
from ..lowering.levels import producer_number
from ..lowering.packaging import Cargo, Shipment, program, unpack
from ..rows import OUTPUT, Counts, Ended, Messages, Row, Tick, Watermark, by_bucket, encode, messages_of
from .output_router import Emitter, watermarks
from .outputs import Output, as_rows
from .stage_feeder import Feeder


class _Part(Protocol):
    """One source partition on its way through level 0."""

    def take_in(self, feeder: Feeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        """Take messages in, and add what they make."""
        ...

    def finish(self, rows: list[Row]) -> None:
        """Add how far time has come, and what was counted."""
        ...


def level_zero(
    shipment: Shipment, stream: str, partition: int, batches: Iterable[Batch], output: Output = as_rows
) -> Iterator[list[Row]]:
    """Bring what a batch of Spark's holds of one source partition through level 0."""
    cargo, _ = unpack(shipment)
    forwarded = stream in cargo.levels.forwarded
    with Feeder() as feeder, ExitStack() as stack:
        part: _Part = (
            _Forward(cargo, stream, partition, output)
            if forwarded
            else _Stage(shipment, cargo, stream, partition, output, stack)
        )
        for batch in batches:
            rows: list[Row] = []
            part.take_in(feeder, batch.offsets, batch.records, rows)
            yield rows
        rest: list[Row] = []
        part.finish(rest)
        yield rest


def end_of_input(shipment: Shipment) -> list[Row]:
    """Tell every bucket of every level that the input has ended."""
    return _to_all(shipment, Ended())


def passing_time(shipment: Shipment, tick: Tick) -> list[Row]:
    """Tell every bucket of every level the time."""
    return _to_all(shipment, tick)


def _to_all(shipment: Shipment, word: Ended | Tick) -> list[Row]:
    cargo, _ = unpack(shipment)
    levels = range(1, cargo.levels.count)
    return [(level, bucket, encode(word)) for level in levels for bucket in range(cargo.buckets)]


def _told(stream: str, partition: int, watermark: int) -> dict[str, int]:
    return {f"{stream}/{partition}": watermark} if watermark > START else {}


class _Stage:
    """A partition whose messages a stage without state processes."""

    def __init__(
        self, shipment: Shipment, cargo: Cargo, stream: str, partition: int, output: Output, stack: ExitStack
    ) -> None:
        stage = next(stage for stage in cargo.plan.stages if stream in stage.inputs)
        producer = producer_number(cargo.plan, stage, stream, partition)
        self._stream, self._partition, self._read = stream, partition, 0
        self._task = StageTask(program(shipment, stage.id), MemoryStore(), position=Position())
        for other in stage.inputs:
            if other != stream:  # its partitions are on their own ways, and tell their own time
                self._task.inputs.end(other)
        self._emitter = Emitter(cargo, stage.id, producer, producer % cargo.buckets, output, stack)

    def take_in(self, feeder: Feeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
        self._read += len(records)
        feeder.feed(self._task, self._stream, self._partition, offsets, records)
        self._emitter.take(self._task, rows)

    def finish(self, rows: list[Row]) -> None:
        self._emitter.flush()
        self._emitter.tell(self._task, rows)
        told = _told(self._stream, self._partition, self._task.inputs.watermark())
        self._emitter.count(self._task, {self._stream: self._read}, rows, told)


class _Forward:
    """A partition whose messages a stage with state needs: only their time is looked at here."""

    def __init__(self, cargo: Cargo, stream: str, partition: int, output: Output) -> None:
        self._cargo, self._stream, self._partition, self._output = cargo, stream, partition, output
        pipeline = cargo.plan.pipeline
        self._source = next(source for source in pipeline.sources if source.stream == stream)
        self._read_times = times_reader(self._source)
        self._failures = Failures(pipeline)
        self._high = START
        self._read = 0

    def take_in(self, feeder: Feeder, offsets: Sequence[int], records: Sequence[Record], rows: list[Row]) -> None:
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
            cargo = self._cargo
            rows.extend(by_bucket(cargo.levels.of_stream[self._stream], cargo.buckets, told))

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
        cargo, failures = self._cargo, self._failures
        watermark = self._high - self._source.out_of_order if self._high > START else START
        rows.extend(watermarks(cargo, Watermark(self._stream, self._partition, watermark)))
        # Those that do not fail here are given to the source's operators, and counted, where its stage runs.
        counts = {"read": {self._stream: self._read}, "given": failures.counts, "failed": failures.counts}
        tally = Tally(counts, _told(self._stream, self._partition, watermark))
        if failures.letters:
            letters = dead_letters(cargo.plan.name)
            tally.counts["written"] = {letters: len(failures.letters)}
            made = messages_of(letters, self._partition, range(len(failures.letters)), failures.letters)
            rows.extend(self._output(made, 0))
        rows.append((OUTPUT, 0, encode(Counts(tally))))

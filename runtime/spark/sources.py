"""Level 0: from the sources to the first shuffle, in one pass over Arrow batches.

It runs the stages that keep no state and read sources alone. Messages that a later level needs as they are it brings to
their bucket, with their time; and it tells every bucket how far each source partition has come.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec
import pyarrow as pa

from ...dsl.message import Record
from ...dsl.operators import Source
from ...dsl.serde import key_serde, value_serde
from ..kernel.failures import Failures, Where
from ..kernel.program import Position
from ..kernel.stage import StageTask
from ..kernel.times import LATEST, START, wrong_time
from ..state.memory import MemoryStore
from .emitting import Emitter, bucket_of, watermarks
from .feeding import Feeder
from .levels import producer_number
from .rows import COUNTS, DATA, ENDED, OUTPUT, Row, arrow_batch, arrow_rows, pack_headers, unpack_headers
from .shipping import Cargo, Shipment, program, unpack

Run = tuple[str, int, list[int], list[Record]]
"""Records of one source partition: stream, partition, offsets, records."""


def level_zero(shipment: Shipment) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark maps over the batches of the sources."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cargo, _ = unpack(shipment)
        with Feeder() as feeder:
            parts: dict[tuple[str, int], _Stage | _Forward] = {}
            for batch in batches:
                rows: list[Row] = []
                for stream, partition, offsets, records in _runs(batch, cargo, rows):
                    part = parts.get((stream, partition))
                    if part is None:
                        part = parts[(stream, partition)] = _part(shipment, cargo, stream, partition)
                    part.take_in(feeder, offsets, records, rows)
                yield arrow_batch(rows)
            rest: list[Row] = []
            for part in parts.values():
                part.finish(rest)
            yield arrow_batch(rest)

    return run


def _runs(batch: pa.RecordBatch, cargo: Cargo, rows: list[Row]) -> Iterator[Run]:
    """The messages of a batch by source partition; the end of input goes to every bucket of every level."""
    for (kind, stream, partition), found in groupby(arrow_rows([batch]), key=lambda row: (row[2], row[3], row[4])):
        if kind == ENDED:
            rows.extend(_ends(cargo))
            continue
        offsets, records = [], []
        for _, _, _, _, _, offset, key, value, timestamp, headers in found:
            offsets.append(offset)
            records.append((key, value, timestamp, unpack_headers(headers)))
        yield stream, partition, offsets, records


def _ends(cargo: Cargo) -> Iterator[Row]:
    for level in range(1, cargo.levels.count):
        for bucket in range(cargo.buckets):
            yield level, bucket, ENDED, "", 0, 0, None, None, 0, None


def _part(shipment: Shipment, cargo: Cargo, stream: str, partition: int) -> "_Stage | _Forward":
    if stream in cargo.levels.forwarded:
        return _Forward(cargo, stream, partition)
    return _Stage(shipment, cargo, stream, partition)


class _Stage:
    """One source partition on its way through a stage that keeps no state."""

    def __init__(self, shipment: Shipment, cargo: Cargo, stream: str, partition: int) -> None:
        stage = next(stage for stage in cargo.plan.stages if stream in stage.inputs)
        producer = producer_number(cargo.plan, stage, stream, partition)
        self._stream, self._partition, self._read = stream, partition, 0
        self._task = StageTask(program(shipment, stage.id), MemoryStore(), position=Position())
        for other in stage.inputs:
            if other != stream:  # its partitions are on their own ways, and tell their own time
                self._task.inputs.end(other)
        self._emitter = Emitter(cargo, stage.id, producer, producer % cargo.buckets)

    def take_in(self, feeder: Feeder, offsets: list[int], records: list[Record], rows: list[Row]) -> None:
        self._read += len(records)
        feeder.feed(self._task, self._stream, self._partition, offsets, records)
        self._emitter.take(self._task, rows)

    def finish(self, rows: list[Row]) -> None:
        self._emitter.tell(self._task, rows)
        self._emitter.count(self._task, {self._stream: self._read}, rows)


class _Forward:
    """One source partition on its way to a stage that keeps state: only its messages' time is looked at here."""

    def __init__(self, cargo: Cargo, stream: str, partition: int) -> None:
        self._cargo, self._stream, self._partition = cargo, stream, partition
        pipeline = cargo.plan.pipeline
        self._source = next(op for op in pipeline.operators if isinstance(op, Source) and op.stream == stream)
        self._decode = value_serde(self._source.value).decode
        self._decode_key = key_serde(self._source.key).decode if self._source.key is not None else None
        self._level = cargo.levels.of_stream[stream]
        self._failures = Failures(pipeline)
        self._high = START
        self._read = 0

    def take_in(self, feeder: Feeder, offsets: list[int], records: list[Record], rows: list[Row]) -> None:
        self._read += len(records)
        for offset, record in zip(offsets, records, strict=True):
            try:
                rows.append(self._row(offset, *record))
            except Exception as error:
                where = Where(self._stream, self._partition, offset, record)
                self._failures.message(where, error, self._source.id)

    def _row(self, offset: int, key: bytes | None, value: bytes | None, timestamp: int, headers: object) -> Row:
        # As the kernel does where it tells time itself: a message that fails there must not move time here.
        decoded = None if value is None else self._decode(value)
        if key is not None and self._decode_key is not None:
            self._decode_key(key)
        if self._source.timestamp is not None:
            timestamp = self._source.timestamp(decoded)
        if type(timestamp) is not int or timestamp > LATEST:
            raise wrong_time(timestamp)
        self._high = max(self._high, timestamp)
        bucket = bucket_of(key, self._cargo.buckets)
        headed = pack_headers(headers)  # type: ignore[arg-type]
        return (self._level, bucket, DATA, self._stream, self._partition, offset, key, value, timestamp, headed)

    def finish(self, rows: list[Row]) -> None:
        cargo, failures = self._cargo, self._failures
        if self._high > START:
            watermark = self._high - self._source.out_of_order
            rows.extend(watermarks(cargo, self._stream, self._partition, watermark))
        letters = f"{cargo.plan.name}-dead-letters"
        for number, (key, value, timestamp, headers) in enumerate(failures.letters):
            headed = pack_headers(headers)
            rows.append((OUTPUT, 0, DATA, letters, self._partition, number, key, value, timestamp, headed))
        counts = {"read": {self._stream: self._read}, "failed": failures.counts}
        if failures.letters:
            counts["written"] = {letters: len(failures.letters)}
        data = msgspec.msgpack.encode(counts)
        rows.append((OUTPUT, 0, COUNTS, "", self._partition, 0, None, data, 0, None))

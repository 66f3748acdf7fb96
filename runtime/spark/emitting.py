"""From what a stage makes to rows: which level and bucket each goes to."""

import zlib
from typing import Any

import msgspec

from ...dsl.message import Record
from ...dsl.operators import SinkTo
from ..kernel.stage import DEAD_LETTERS, StageTask
from ..kernel.times import START
from .rows import COUNTS, DATA, OUTPUT, WATERMARK, Row, pack_headers
from .shipping import Cargo


def bucket_of(key: bytes | None, buckets: int) -> int:
    """The key bucket of a key; messages without key share the first."""
    return 0 if key is None else zlib.crc32(key) % buckets


class Emitter:
    """Turns what the tasks of one stage make into rows.

    `producer` is who makes it, to those who sort it or tell time by it; `bucket` is where rows that leave the
    query lie.
    """

    def __init__(self, cargo: Cargo, stage: str, producer: int, bucket: int) -> None:
        self._cargo = cargo
        self._producer = producer
        self._bucket = bucket
        self._position = 0
        plan = cargo.plan
        members = plan.stage(stage).operators
        self._streams = {id: plan.operator(id).writes[0] for id in members if plan.operator(id).writes}
        self._streams[DEAD_LETTERS] = f"{plan.name}-dead-letters"
        self._borders = [id for id in members if plan.operator(id).kind == "partition_by"]
        self._sinks: dict[str, SinkTo] = {}
        for id in members:
            operator = plan.pipeline.operator(id)
            if isinstance(operator, SinkTo):
                self._sinks[id] = operator
        self.written: dict[str, int] = {}

    def take(self, task: StageTask, rows: list[Row]) -> None:
        """Add what a task has made; messages for sinks go there now."""
        for id, made in task.take():
            name = self._streams.get(id, id)
            self.written[name] = self.written.get(name, 0) + len(made)
            if id in self._sinks:
                self._sink(id, made)
                continue
            level = self._cargo.levels.of_stream.get(name, OUTPUT)
            address = self._to_bucket if level != OUTPUT else self._stay
            for record in made:
                rows.append(self._row(level, address(record[0]), name, record))

    def _row(self, level: int, bucket: int, stream: str, record: Record) -> Row:
        key, value, timestamp, headers = record
        self._position += 1
        headed = pack_headers(headers)
        return (level, bucket, DATA, stream, self._producer, self._position, key, value, timestamp, headed)

    def _to_bucket(self, key: bytes | None) -> int:
        return bucket_of(key, self._cargo.buckets)

    def _stay(self, _: bytes | None) -> int:
        return self._bucket

    def _sink(self, id: str, messages: list[Any]) -> None:
        sink = self._sinks[id].sink
        sink.open()
        try:
            sink.write(messages)
            sink.flush()
        finally:
            sink.close()

    def tell(self, task: StageTask, rows: list[Row]) -> None:
        """Tell every bucket behind a border how far time has come here."""
        for id in self._borders:
            rows.extend(watermarks(self._cargo, self._streams[id], self._producer, task.told_watermark_of(id)))

    def count(self, task: StageTask, read: dict[str, int], rows: list[Row]) -> None:
        """Send what was counted on its way to the report."""
        counts = {"read": read, "written": self.written, "late": task.late, "failed": task.failures.counts}
        if any(counts.values()):
            data = msgspec.msgpack.encode(counts)
            rows.append((OUTPUT, self._bucket, COUNTS, "", self._producer, 0, None, data, 0, None))


def watermarks(cargo: Cargo, stream: str, producer: int, watermark: int) -> list[Row]:
    """Rows that tell every bucket where `stream` is read how far one producer has come."""
    if watermark == START:
        return []
    level = cargo.levels.of_stream[stream]
    rest = (WATERMARK, stream, producer, 0, None, None, watermark, None)
    return [(level, bucket, *rest) for bucket in range(cargo.buckets)]

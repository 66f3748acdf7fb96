"""The embedded log as a streaming source of Spark's: partitions are read in parallel, as Arrow batches.

Offsets are by stream and partition. A run that goes to the end reads up to the offsets it was started with.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ..systems.contract import Batch
from ..systems.log.reader import LogReader
from .rows import ARROW_SCHEMA, DATA, SPARK_SCHEMA, pack_headers

ARROW_RECORDS = 10_000
"""Most records of one Arrow batch."""


class LogOptions(msgspec.Struct, frozen=True):
    """What a source is told: where the log is, which offsets to begin at and where to stop, by stream, and how many
    records of a partition one batch may have."""

    directory: str
    starts: dict[str, list[int]]
    ends: dict[str, list[int]] | None
    batch_records: int


@dataclass
class LogRange(InputPartition):
    """Offsets of one partition."""

    stream: str
    partition: int
    start: int
    end: int


class LogDataSource(DataSource):
    """Spark's name for the log."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_log"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "LogStreamReader":
        return LogStreamReader(msgspec.json.decode(self.options["told"], type=LogOptions))


Offsets = dict[str, list[int]]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams it is told, from Spark's offsets to Spark's offsets."""

    def __init__(self, told: LogOptions) -> None:
        self._told = told
        self._reader = LogReader(told.directory)
        self._target: Offsets | None = told.ends

    def initialOffset(self) -> Offsets:
        return self._told.starts

    def prepareForTriggerAvailableNow(self) -> None:
        if self._target is None:
            self._target = self._ends()

    def _ends(self) -> Offsets:
        return {stream: self._reader.ends(stream) for stream in self._told.starts}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._told.batch_records)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        target = self._target or self._ends()
        most = self._told.batch_records
        return {stream: _step(start[stream], ends, most) for stream, ends in target.items()}

    def partitions(self, start: Offsets, end: Offsets) -> list[LogRange]:
        return [
            LogRange(stream, number, first, last)
            for stream, ends in end.items()
            for number, (first, last) in enumerate(zip(start[stream], ends, strict=True))
            if first < last
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogRange)
        where = partition.stream, partition.partition
        for batch in self._reader.read(*where, partition.start, partition.end, max_records=ARROW_RECORDS):
            yield arrow_of(batch)


def _step(start: list[int], ends: list[int], most: int) -> list[int]:
    return [max(first, min(first + most, last)) for first, last in zip(start, ends, strict=True)]


def arrow_of(batch: Batch) -> pa.RecordBatch:
    """A batch of the log in the shape of rows."""
    count = len(batch.records)
    keys, values, times, headers = zip(*batch.records, strict=True)
    zeros = pa.array([0] * count, pa.int32())
    fields: Mapping[str, Any] = {
        "level": zeros,
        "bucket": zeros,
        "kind": pa.array([DATA] * count, pa.int32()),
        "stream": pa.array([batch.stream] * count, pa.string()),
        "producer": pa.array([batch.partition] * count, pa.int32()),
        "position": pa.array(list(batch.offsets), pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "timestamp": pa.array(times, pa.int64()),
        "headers": pa.array([pack_headers(found) for found in headers], pa.binary()),
    }
    return pa.RecordBatch.from_arrays([fields[field.name] for field in ARROW_SCHEMA], schema=ARROW_SCHEMA)

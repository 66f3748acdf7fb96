"""The log as a source and a sink of Spark's, a row to a message: what one would write for a job alone."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, InputPartition

from benchmarks.workloads import PARTITIONS
from fluvial.runtime.spark.log_sink import LogStreamWriter, SinkOptions, Staged
from fluvial.runtime.spark.log_source import LogOptions, LogRange, LogStreamReader
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log import LogReader
from fluvial.runtime.systems.partitioner import partition_for

SCHEMA = "key binary, value binary, timestamp long"
ARROW_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64())])


class RowSource(DataSource):
    """Reads messages."""

    @classmethod
    def name(cls) -> str:
        return "bench_log"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "RowReader":
        return RowReader(msgspec.json.decode(self.options["told"], type=LogOptions))


class RowReader(LogStreamReader):
    """The engine's offsets; Arrow batches of messages."""

    def __init__(self, told: LogOptions) -> None:
        super().__init__(told)
        self._log = LogReader(told.directory)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogRange)
        for batch in self._log.read(partition.stream, partition.partition, partition.start, partition.end):
            keys, values, times, _ = zip(*batch.records, strict=True)
            yield arrow_batch(keys, values, times)


class RowSink(DataSource):
    """Writes messages to the stream `out`."""

    @classmethod
    def name(cls) -> str:
        return "bench_log_sink"

    def schema(self) -> str:
        return SCHEMA

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return RowWriter(msgspec.json.decode(self.options["told"], type=SinkOptions))


class RowWriter(LogStreamWriter):
    """The engine's commit; Arrow batches of messages."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        transaction = LogSystem(Path(self.told.directory), fsync=False).producer().begin()
        for batch in iterator:
            parts: list[list[Any]] = [[] for _ in range(PARTITIONS)]
            columns = (column.to_pylist() for column in batch.columns)
            for key, value, at in zip(*columns, strict=True):
                parts[partition_for(key, PARTITIONS)].append((key, value, at, ()))
            for number, records in enumerate(parts):
                transaction.append("out", number, records)
        return Staged(transaction.prepare("", {}) if transaction.size else None)


def arrow_batch(keys: Iterable[Any], values: Iterable[Any], times: Iterable[Any]) -> pa.RecordBatch:
    """Messages as an Arrow batch."""
    columns = zip((keys, values, times), ARROW_SCHEMA, strict=True)
    arrays = [found if isinstance(found, pa.Array) else pa.array(found, field.type) for found, field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

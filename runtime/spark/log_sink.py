"""The embedded log as a sink of Spark's: tasks stage records, the driver publishes a batch at one stroke, once.

A batch that is run again after a crash finds that its number is published already, and publishes nothing.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from ...dsl.message import Record
from ..systems.log import LogProducer, LogSystem
from ..systems.partitioner import partition_for
from .rows import COUNTS, SPARK_SCHEMA, arrow_rows, unpack_headers

BATCH = "batch"
"""The checkpoint under which the number of the last published batch is kept."""
TOTALS = "totals"
"""The checkpoint under which counts are added up."""

Counts = dict[str, dict[str, int]]


class SinkOptions(msgspec.Struct, frozen=True):
    """What a sink is told: where the log is, whether to sync it, the partitions of each output, and the group that its
    checkpoints are kept under."""

    directory: str
    fsync: bool
    partitions: dict[str, int]
    group: str


class LogSinkDataSource(DataSource):
    """Spark's name for the sink."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_log_sink"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamWriter(self, schema: Any, overwrite: bool) -> "LogStreamWriter":
        return LogStreamWriter(msgspec.json.decode(self.options["told"], type=SinkOptions))


@dataclass
class _Staged(WriterCommitMessage):
    """What one Spark task has staged and counted."""

    token: bytes | None
    counts: Counts = field(default_factory=dict)


_PRODUCERS: dict[tuple[int, str], LogProducer] = {}
"""One producer a process and log: Spark uses its workers again, and a producer's files grow with each use."""


def _producer(told: SinkOptions) -> LogProducer:
    place = (os.getpid(), told.directory)
    if place not in _PRODUCERS:
        _PRODUCERS[place] = LogSystem(Path(told.directory), fsync=told.fsync).producer()
    return _PRODUCERS[place]


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes rows that leave a query to the streams they name."""

    def __init__(self, told: SinkOptions) -> None:
        self._told = told

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Staged:
        transaction = _producer(self._told).begin()
        counts: Counts = {}
        for batch in iterator:
            parts: dict[tuple[str, int], list[Record]] = {}
            for _, _, kind, stream, producer, _, key, value, timestamp, headers in arrow_rows([batch]):
                if kind == COUNTS:
                    add_counts(counts, msgspec.msgpack.decode(value or b"", type=Counts))
                    continue
                partitions = self._told.partitions[stream]
                number = producer % partitions if key is None else partition_for(key, partitions)
                parts.setdefault((stream, number), []).append((key, value, timestamp, unpack_headers(headers)))
            for (stream, number), records in parts.items():
                transaction.append(stream, number, records)
        token = transaction.prepare("", {}) if transaction.size else None
        return _Staged(token, counts)

    def commit(self, messages: list[Any], batchId: int) -> None:
        staged = [message for message in messages if message is not None]
        system = LogSystem(Path(self._told.directory), fsync=self._told.fsync)
        totals: Counts = totals_of(system.admin().checkpoints(self._told.group))
        for message in staged:
            add_counts(totals, message.counts)
        producer = system.producer()
        try:
            producer.publish_all(
                [message.token for message in staged if message.token is not None],
                self._told.group,
                {BATCH: str(batchId).encode(), TOTALS: msgspec.json.encode(totals)},
                unless=lambda saved: int(saved.get(BATCH, b"-1")) >= batchId,
            )
        finally:
            producer.close()

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing to do: what was staged is never published."""


def totals_of(checkpoints: Any) -> Counts:
    """The counts of all batches published so far."""
    return msgspec.json.decode(checkpoints[TOTALS], type=Counts) if TOTALS in checkpoints else {}


def add_counts(totals: Counts, more: Counts) -> None:
    """Add counts to others, in place."""
    for kind, counts in more.items():
        into = totals.setdefault(kind, {})
        for name, number in counts.items():
            into[name] = into.get(name, 0) + number

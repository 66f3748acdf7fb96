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

from ..systems.log import LogProducer, LogSystem
from .outputs import write_out
from .rows import SPARK_SCHEMA
from .tally import TOTALS, Tally, tally_of

BATCH = "batch"
"""The checkpoint under which the number of the last published batch is kept."""


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
class Staged(WriterCommitMessage):
    """What one Spark task has staged and counted."""

    token: bytes | None
    tally: Tally = field(default_factory=Tally)


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
        self.told = told

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        transaction = _producer(self.told).begin()
        tally = write_out(iterator, self.told.partitions, transaction.append)
        token = transaction.prepare("", {}) if transaction.size else None
        return Staged(token, tally)

    def commit(self, messages: list[Any], batchId: int) -> None:
        staged = [message for message in messages if message is not None]
        system = LogSystem(Path(self.told.directory), fsync=self.told.fsync)
        tally = tally_of(system.admin().checkpoints(self.told.group))
        for message in staged:
            tally.add(message.tally)
        producer = system.producer()
        try:
            producer.publish_all(
                [message.token for message in staged if message.token is not None],
                self.told.group,
                {BATCH: str(batchId).encode(), TOTALS: msgspec.json.encode(tally)},
                unless=lambda saved: int(saved.get(BATCH, b"-1")) >= batchId,
            )
        finally:
            producer.close()

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing to do: what was staged is never published."""

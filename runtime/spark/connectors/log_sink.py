"""The embedded log as the end of a query: tasks stage records, the driver publishes a batch at one stroke, once.

A batch that is run again after a crash finds that its number is published already, and publishes nothing. That it is
the same batch is checked before a run starts: see `published_batches`.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from ...systems.log import LogProducer, LogSystem
from ..counts import TOTALS, Tally, tally_of
from ..rows import Counts, Messages, blocks_of
from ..worker.outputs import by_partition
from .published_batches import BATCH, OFFSETS, offsets_hash, published_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARK_SCHEMA = "token binary, tally binary"
_ARROW_SCHEMA = pa.schema([("token", pa.binary()), ("tally", pa.binary())])


class SinkOptions(msgspec.Struct, frozen=True):
    """What a sink is told: where the log is, whether to sync it, the partitions of each output, the group that its
    checkpoints are kept under, and Spark's own checkpoint."""

    directory: str
    fsync: bool
    partitions: dict[str, int]
    group: str
    checkpoint: str


_PRODUCERS: dict[tuple[int, str], LogProducer] = {}
"""One producer a process and log: Spark uses its workers again, and a producer's files grow with each use."""


def _producer(told: SinkOptions) -> LogProducer:
    place = (os.getpid(), told.directory)
    if place not in _PRODUCERS:
        _PRODUCERS[place] = LogSystem(Path(told.directory), fsync=told.fsync).producer()
    return _PRODUCERS[place]


class LogSink:
    """Writes rows that leave a query to the streams they name."""

    def __init__(self, told: SinkOptions) -> None:
        self._told = told

    def write(self, rows: "DataFrame", batch: int) -> None:
        """Run a batch and publish it, once."""
        staged = rows.mapInArrow(self.stage, SPARK_SCHEMA).collect()
        told = self._told
        system = LogSystem(Path(told.directory), fsync=told.fsync)
        tally = tally_of(system.admin().checkpoints(told.group))
        for row in staged:
            tally.add(msgspec.json.decode(row.tally, type=Tally))
        producer = system.producer()
        try:
            producer.publish_all(
                [bytes(row.token) for row in staged if row.token is not None],
                told.group,
                {
                    BATCH: str(batch).encode(),
                    OFFSETS: offsets_hash(Path(told.checkpoint), batch),
                    TOTALS: msgspec.json.encode(tally),
                },
                unless=lambda saved: published_batch(saved) >= batch,
            )
        finally:
            producer.close()

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a worker: write down what is to be published; what comes out is the word to publish it, and a tally."""
        transaction, tally = _producer(self._told).begin(), Tally()
        for block in blocks_of(batches):
            if isinstance(block, Counts):
                tally.add(block.tally)
            elif isinstance(block, Messages):
                for partition, records in by_partition(block, self._told.partitions):
                    transaction.append(block.stream, partition, records)
        token = transaction.prepare("", {}) if transaction.size else None
        yield pa.RecordBatch.from_pylist([{"token": token, "tally": msgspec.json.encode(tally)}], schema=_ARROW_SCHEMA)

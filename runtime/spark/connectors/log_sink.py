"""The embedded log as the end of a query: tasks stage records, the driver publishes each batch atomically and once.

A batch that is run again after a crash finds its number published already, and publishes nothing. `published_batches`
checks before a run that it is the same batch.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from ...systems.log import LogProducer, LogSystem
from ..batch_report import BatchReport
from ..counts import TOTALS, published_counts
from ..rows import Messages, TaskReport, blocks_of
from ..worker.error_texts import checked_report
from ..worker.outputs import Outputs, RowOutputs, by_partition
from .published_batches import BATCH, OFFSETS, offsets_hash, published_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARK_SCHEMA = "token binary, report binary"
_ARROW_SCHEMA = pa.schema([("token", pa.binary()), ("report", pa.binary())])


class SinkOptions(msgspec.Struct, frozen=True):
    """The options of the sink: the log's directory, whether to sync it, the partition counts of streams, the group
    under which the log has the query's checkpoints, and Spark's own checkpoint."""

    directory: str
    fsync: bool
    partitions: dict[str, int]
    group: str
    checkpoint: str


_PRODUCERS: dict[tuple[int, str], LogProducer] = {}
"""One producer for each process and log. Spark uses a worker process for many tasks, also of later runs of a session,
and each new producer would add files."""


def _producer(options: SinkOptions) -> LogProducer:
    key = (os.getpid(), options.directory)
    producer = _PRODUCERS.get(key)
    if producer is None or producer.removed:
        producer = _PRODUCERS[key] = LogSystem(Path(options.directory), fsync=options.fsync).producer()
    return producer


class LogSink:
    """Writes the messages of rows that leave a query to their streams."""

    outputs: Outputs = RowOutputs()

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def run(self, rows: "DataFrame", batch: int) -> BatchReport:
        """Run a batch, publish it unless it is published already, and return what its tasks have reported."""
        staged = rows.mapInArrow(self.stage, SPARK_SCHEMA).collect()
        options = self._options
        system = LogSystem(Path(options.directory), fsync=options.fsync)
        totals = published_counts(system.admin().checkpoints(options.group))
        report = checked_report(msgspec.json.decode(row.report, type=BatchReport) for row in staged)
        totals.add(report.counts)
        producer = system.producer()
        try:
            producer.publish_all(
                [bytes(row.token) for row in staged if row.token is not None],
                options.group,
                {
                    BATCH: str(batch).encode(),
                    OFFSETS: offsets_hash(Path(options.checkpoint), batch),
                    TOTALS: msgspec.json.encode(totals),
                },
                unless=lambda saved: published_batch(saved) >= batch,
            )
        finally:
            producer.close()
        return report

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a worker: stage the messages of some rows in a transaction. Yields one row with the token that publishes
        the transaction, and the report."""
        transaction, report = _producer(self._options).begin(), BatchReport()
        for block in blocks_of(batches):
            if isinstance(block, TaskReport):
                report.add(block.report)
            elif isinstance(block, Messages):
                for partition, records in by_partition(block, self._options.partitions):
                    transaction.append(block.stream, partition, records)
        token = transaction.prepare("", {}) if transaction.size else None
        yield pa.RecordBatch.from_pylist(
            [{"token": token, "report": msgspec.json.encode(report)}], schema=_ARROW_SCHEMA
        )

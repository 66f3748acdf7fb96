"""Kafka as the end of a query: workers send messages as soon as they make them, the driver adds up their counts.

A batch that is run again after a crash sends the same messages again: delivery is at least once. Spark's own sink
cannot be used, since its records have the time of writing. A sink of ours behind the query would pass each message
through the JVM to another Python process, which takes longer than most pipelines take for a message.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...systems.kafka import Cluster, KafkaRecordProducer
from ..atomic_file import read, write
from ..batch_report import BatchReport
from ..counts import Counts
from ..rows import Messages, Row, TaskReport, decode
from ..worker.outputs import Output, by_partition
from .kafka_format import parse_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrittenCounts(msgspec.Struct):
    """The counts of all batches up to the one of this number, as they are stored beside the checkpoint."""

    batch: int = -1
    totals: Counts = msgspec.field(default_factory=Counts, name="tally")


def read_counts(file: Path) -> WrittenCounts:
    """The counts in a file; none if there is no file yet."""
    return read(file, WrittenCounts) if file.exists() else WrittenCounts()


def run_batch(rows: "DataFrame", batch: int, file: Path) -> BatchReport:
    """Run a batch, and return what its tasks have reported. Its counts are added to the file; those of a batch that is
    run again are added once."""
    report = BatchReport()
    for (packed,) in rows.select("block").collect():
        block = decode(packed)
        if isinstance(block, TaskReport):
            report.add(block.report)
    written = read_counts(file)
    if written.batch < batch:
        written.batch = batch
        written.totals.add(report.counts)
        write(file, msgspec.json.encode(written))
    return report


_PRODUCERS: dict[tuple[object, ...], KafkaRecordProducer] = {}
"""One idle producer for each process, settings and outputs. Spark uses a worker process for many tasks, and to connect
takes long."""


@dataclass(frozen=True, slots=True)
class KafkaOutputs:
    """Outputs that send messages to Kafka. `partitions` are the partition counts of their streams, `settings` those of
    the cluster as text."""

    partitions: Mapping[str, int]
    settings: str = field(repr=False)

    @contextmanager
    def __call__(self) -> Iterator[Output]:
        """Open the outputs for one task of Spark. They are written when the context closes without an error."""
        key = (os.getpid(), self.settings, *self.partitions)
        producer = _PRODUCERS.pop(key, None)
        if producer is None:
            producer = KafkaRecordProducer(Cluster(parse_settings(self.settings)), streams=tuple(self.partitions))

        def send(messages: Messages, _: int) -> tuple[Row, ...]:
            for partition, records in by_partition(messages, self.partitions):
                producer.send(messages.stream, partition, records)
            return ()

        try:
            yield send
            producer.flush()
        except BaseException:
            producer.close()  # a producer that has failed is not used again
            raise
        _PRODUCERS[key] = producer

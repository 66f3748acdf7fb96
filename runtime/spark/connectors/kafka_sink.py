"""Kafka as the end of a query: workers send what leaves it as soon as it is made, the driver adds up what they count.

A batch that is run again after a crash is sent again, in the same words: at least once. Spark's own sink cannot be
used, as its records have the time at which they are written. As a sink behind the query, ours would have messages go
through the JVM to yet another Python process; that takes longer than what most pipelines do with them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...systems.kafka import Cluster, KafkaRecordProducer
from ..counts import Tally
from ..query.atomic_file import write
from ..rows import Counts, Messages, Row, decode
from ..worker.outputs import Output, by_partition
from .kafka_format import parse_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrittenCounts(msgspec.Struct):
    """What all batches have counted, up to the one of this number."""

    batch: int = -1
    tally: Tally = msgspec.field(default_factory=Tally)


def read_counts(file: Path) -> WrittenCounts:
    """What a file for it holds."""
    return msgspec.json.decode(file.read_bytes(), type=WrittenCounts) if file.exists() else WrittenCounts()


def count(rows: "DataFrame", batch: int, file: Path) -> None:
    """Run a batch, and add what it has counted to a file, once."""
    blocks = rows.select("block").collect()
    found = read_counts(file)
    if found.batch >= batch:
        return
    found.batch = batch
    for (block,) in blocks:
        told = decode(block)
        if isinstance(told, Counts):
            found.tally.add(told.tally)
    write(file, msgspec.json.encode(found))


_SENDERS: dict[tuple[int, str], KafkaRecordProducer] = {}
"""One sender a process and client's settings: Spark uses its workers again, and to connect takes long."""


@dataclass(frozen=True, slots=True)
class KafkaOutputs:
    """Sends what leaves a query. `partitions` are those of each output, `settings` those of the client."""

    partitions: Mapping[str, int]
    settings: str = field(repr=False)

    @contextmanager
    def __call__(self) -> Iterator[Output]:
        place = (os.getpid(), self.settings)
        sender = _SENDERS.pop(place, None) or KafkaRecordProducer(Cluster(parse_settings(self.settings)))

        def send(found: Messages, _: int) -> tuple[Row, ...]:
            for partition, records in by_partition(found, self.partitions):
                sender.send(found.stream, partition, records)
            return ()

        try:
            yield send
            sender.flush()
        except BaseException:
            sender.close()  # one that has failed is not used again
            raise
        _SENDERS[place] = sender

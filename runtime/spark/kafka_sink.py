"""Kafka as a sink of Spark's. Its workers send what leaves a query; a batch is done when all of it is safe.

A batch that is run again after a crash is sent again, in the same words: at least once. Spark's own sink cannot be
used, as its records have the time at which they are written.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from ..systems.kafka import Cluster, KafkaSender
from .files import write
from .kafka_settings import unpacked
from .outputs import write_out
from .rows import SPARK_SCHEMA
from .tally import Tally

SECRET = "secret_settings"
"""The option with the settings of the client. Spark shows no option with such a name."""


class KafkaSinkOptions(msgspec.Struct, frozen=True):
    """What a sink is told: the partitions of each output, and the file for what was counted."""

    partitions: dict[str, int]
    counted: str


class Counted(msgspec.Struct):
    """What all batches have counted, up to the one of this number."""

    batch: int = -1
    tally: Tally = msgspec.field(default_factory=Tally)


def counted(file: Path) -> Counted:
    """What a file for it holds."""
    return msgspec.json.decode(file.read_bytes(), type=Counted) if file.exists() else Counted()


class KafkaSinkDataSource(DataSource):
    """Spark's name for the sink."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_kafka_sink"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamWriter(self, schema: Any, overwrite: bool) -> "KafkaStreamWriter":
        told = msgspec.json.decode(self.options["told"], type=KafkaSinkOptions)
        return KafkaStreamWriter(told, self.options[SECRET])


@dataclass
class Sent(WriterCommitMessage):
    """What one Spark task has counted; all it had to send is safe."""

    tally: Tally = field(default_factory=Tally)


_SENDERS: dict[tuple[int, str], KafkaSender] = {}
"""One sender a process and client's settings: Spark uses its workers again, and to connect takes long."""


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Sends rows that leave a query to the streams they name."""

    def __init__(self, told: KafkaSinkOptions, settings: str) -> None:
        self.told = told
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        place = (os.getpid(), self._settings)
        sender = _SENDERS.pop(place, None) or KafkaSender(Cluster(unpacked(self._settings)))
        try:
            tally = write_out(iterator, self.told.partitions, sender.send)
            sender.flush()
        except BaseException:
            sender.close()  # one that has failed is not used again
            raise
        _SENDERS[place] = sender
        return Sent(tally)

    def commit(self, messages: list[Any], batchId: int) -> None:
        file = Path(self.told.counted)
        found = counted(file)
        if found.batch >= batchId:
            return
        found.batch = batchId
        for message in messages:
            if message is not None:
                found.tally.add(message.tally)
        write(file, msgspec.json.encode(found))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing to do: what was sent cannot be taken back."""

"""Kafka as the end of a query under `at_least_once`: workers send messages as soon as they make them.

A batch that is run again after a crash sends the same messages again: delivery is at least once. Spark's own sink
cannot be used, since its records have the time of writing. A sink of ours behind the query would pass each message
through the JVM to another Python process, which takes longer than most pipelines take for a message.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b

from msgspec import structs

from ...systems.kafka import Cluster, KafkaRecordProducer
from ..batch_report import BatchReport
from ..batch_times import batch_of_task
from ..rows import TASK_BITS, Messages, Row, encode
from ..worker.outputs import Output, by_partition, report_row
from .kafka_format import parse_settings

MESSAGE_ID = "fluvial.id"
"""The header with the id of a message."""

_PRODUCERS: dict[tuple[object, ...], KafkaRecordProducer] = {}
"""One idle producer for each process, settings and outputs. Spark uses a worker process for many tasks, and to connect
takes long."""


@dataclass(frozen=True, slots=True)
class KafkaOutputs:
    """Outputs that send messages to Kafka. `partitions` are the partition counts of their streams, `settings` those of
    the cluster as text. With the name of the query as `group`, messages have ids: by their position, or `by_content` if
    they may come in another order when their batch is run again."""

    partitions: Mapping[str, int]
    settings: str = field(repr=False)
    group: str = ""
    by_content: bool = False

    @contextmanager
    def __call__(self) -> Iterator[Output]:
        """Open the outputs for one task of Spark. They are written when the context closes without an error."""
        key = (os.getpid(), self.settings, *self.partitions)
        producer = _PRODUCERS.pop(key, None)
        if producer is None:
            producer = KafkaRecordProducer(Cluster(parse_settings(self.settings)), streams=tuple(self.partitions))

        _, batch, _ = batch_of_task() or ("", 0, 0)
        seen = Counter[tuple[str, str]]() if self.by_content else None

        def send(messages: Messages, stage: int, _: int) -> tuple[Row, ...]:
            if self.group:
                messages = with_ids(messages, f"{self.group}/{batch}/{stage}/{messages.producer}", seen)
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

    def failure_rows(self, report: BatchReport) -> list[Row]:
        """One row for the driver. What was sent stays; the batch is run again by the next run."""
        return [report_row(0, report)]


def with_ids(messages: Messages, prefix: str, seen: Counter[tuple[str, str]] | None = None) -> Messages:
    """The messages with their ids in a header: the position behind a prefix; where a counter of the ids that were
    `seen` is given, a digest of the message, and which one of its kind it is. A message of another pipeline's loses the
    id that it came with."""
    given = messages.headers or [()] * len(messages.positions)
    headers = [tuple(header for header in rest if header[0] != MESSAGE_ID) for rest in given]
    messages = structs.replace(messages, headers=headers)
    ids = map(str, messages.positions) if seen is None else _by_content(messages, prefix, seen)
    pairs = zip(headers, ids, strict=True)
    return structs.replace(messages, headers=[(*rest, (MESSAGE_ID, f"{prefix}/{id}".encode())) for rest, id in pairs])


def _by_content(messages: Messages, prefix: str, seen: Counter[tuple[str, str]]) -> Iterator[str]:
    for record in messages.records():
        digest = blake2b(encode((messages.stream, record)), digest_size=16).hexdigest()
        one = f"{messages.positions[0] >> TASK_BITS}.{digest}"
        yield f"{one}.{seen[prefix, one]}"
        seen[prefix, one] += 1

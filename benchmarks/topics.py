"""The broker as the harness sees it: topics are made, loaded, measured, read and removed."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from benchmarks.sources import PARTITIONS, VERSION, Source

Tell = Callable[[str], None]

_SECONDS = 30.0
_PATIENCE = 60.0
"""Seconds without a message after which no more are waited for."""

_BY_KEY = -1
"""For a partition: the key decides."""

_FOREVER = {"retention.ms": "-1"}


class Topics:
    """The topics of a broker that is the benchmark's own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": address, "log_level": 0}
        self._admin = AdminClient(self._quiet)
        self._consumer = Consumer({**self._quiet, "group.id": "benchmarks", "enable.auto.commit": False})
        self._partitions: dict[str, int] = {}

    def create(self, topic: str, partitions: int = PARTITIONS, /, **config: str) -> None:
        """Make a topic; settings are written with `_` for `.`."""
        settings = _FOREVER | {name.replace("_", "."): value for name, value in config.items()}
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()
        self._partitions[topic] = partitions
        self.ends(topic)

    def names(self) -> set[str]:
        """All topics but the broker's own."""
        found = self._admin.list_topics(timeout=_SECONDS).topics
        return {str(name) for name in found if not str(name).startswith("__")}

    def remove(self, topics: Iterable[str]) -> None:
        """Remove topics; one that is gone already is no matter."""
        if wanted := list(topics):
            for future in self._admin.delete_topics(wanted).values():
                try:
                    future.result()
                except KafkaException:
                    continue

    def ends(self, topic: str) -> list[int]:
        """The offset that the next message of each partition will have."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return self._ends(topic)
            except KafkaException:  # a topic that is new has no leader yet; a client does not always learn of one
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                self._admin = AdminClient(self._quiet)

    def _ends(self, topic: str) -> list[int]:
        count = self._partitions.get(topic, PARTITIONS)
        partitions = [TopicPartition(topic, number) for number in range(count)]
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(dict.fromkeys(partitions, latest), request_timeout=_SECONDS)
        return [asked[partition].result().offset for partition in partitions]

    def read(self, topic: str) -> Iterator[tuple[bytes, int]]:
        """Each value with the time that the broker gave it, in ms since epoch; up to the end that there is now."""
        left = {partition: end for partition, end in enumerate(self.ends(topic)) if end}
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        deadline = time.monotonic() + _PATIENCE
        while left and time.monotonic() < deadline:
            messages = self._consumer.consume(10_000, 0.5)
            if messages:
                deadline = time.monotonic() + _PATIENCE
            for message in messages:
                value, offset, partition = message.value(), message.offset(), message.partition()
                if message.error() is None and isinstance(value, bytes):
                    yield value, message.timestamp()[1]
                if offset is not None and partition in left and offset + 1 >= left[partition]:
                    del left[partition]
            self._drop_passed(topic, left)
        self._consumer.unassign()

    def _drop_passed(self, topic: str, left: dict[int, int]) -> None:
        """The last offsets may hold marks of transactions, which never come as messages."""
        for partition in self._consumer.position([TopicPartition(topic, number) for number in left]):
            if partition.offset >= left.get(partition.partition, partition.offset + 1):
                del left[partition.partition]

    def close(self) -> None:
        """Let the client go."""
        self._consumer.close()


def load(topics: Topics, sources: Iterable[Source[Any]], count: int, tell: Tell) -> tuple[str, ...]:
    """The topics that hold the messages of so many events, or orders; loads those that do not yet."""
    return tuple(_loaded(topics, source, count, tell) for source in sources)


def stays(topic: str) -> bool:
    """Whether a topic is input, which later runs of the harness read again."""
    return topic.endswith(f"-v{VERSION}")


def _loaded(topics: Topics, source: Source[Any], count: int, tell: Tell) -> str:
    topic = f"{source.name}-{count}-v{VERSION}"
    if topic in topics.names():
        if sum(topics.ends(topic)) == source.whole_size(count):
            return topic
        topics.remove([topic])
        time.sleep(1)  # the broker takes a name back when its files are gone
    tell(f"loading {source.size(count):,} messages into {topic}")
    topics.create(topic)
    produce_all(topics.address, topic, source, count)
    return topic


def produce_all(address: str, topic: str, source: Source[Any], count: int) -> None:
    """Write the messages of a source, each into its partition or that of its key."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "partitioner": "murmur2_random"})
    encode = msgspec.json.Encoder().encode
    for message, partition in source.with_markers(count):
        to = _BY_KEY if partition is None else partition
        produce(producer, topic, source.key(message).encode(), encode(message), message.at, to)
    producer.flush()


def produce(producer: Producer, topic: str, key: bytes, value: bytes, at: int, partition: int = _BY_KEY) -> None:
    """Hand a message of a time to a client, once it has room."""
    while True:
        try:
            producer.produce(topic, value, key, partition, timestamp=at)
            return
        except BufferError:
            producer.poll(0.1)

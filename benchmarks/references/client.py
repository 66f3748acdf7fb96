"""The Kafka client as the loops by hand use it, set for speed."""

from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.job import Job, Seen
from benchmarks.sources import PARTITIONS

AT_ONCE = 500
"""Messages that one call may bring; more make the call slower for each."""

IDLE = 0.1
"""Seconds to wait where there is nothing."""

CONSUMER = {
    "auto.offset.reset": "earliest",
    "fetch.queue.backoff.ms": 5,  # of a full queue: the default, a second, leaves a fast reader without messages
    "queued.min.messages": 20_000,
}
PRODUCER = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 1_000_000,
    "partitioner": "murmur2_random",  # as Java's clients
}


class Client:
    """Reads the job's topics, to the end that it has at the start unless the job is endless; writes messages."""

    def __init__(self, job: Job) -> None:
        address = {"bootstrap.servers": job.address}
        self._job = job
        self._consumer = Consumer({**address, **CONSUMER, "group.id": job.name})
        self._producer = Producer({**address, **PRODUCER})
        self._seen = Seen(job)
        self.produce: Callable[..., None] = self._producer.produce

    def batches(self, *through: str) -> Iterator[list[Any]]:
        """All messages as they come: those of the input, and of topics through which each of them is sent on."""
        left = self.begin(*through)
        while left > 0:
            batch = self.take() or self.wait()
            left -= len(batch)
            yield batch

    def make(self, topic: str) -> None:
        """Make a topic of as many partitions as the input has."""
        admin = AdminClient({"bootstrap.servers": self._job.address})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()

    def begin(self, *through: str) -> float:
        """Begin to read; how many messages there are to come."""
        self._consumer.subscribe([*self._job.inputs, *through])
        if self._job.endless:
            return float("inf")
        partitions = [TopicPartition(topic, number) for topic in self._job.inputs for number in range(PARTITIONS)]
        return sum(self._consumer.get_watermark_offsets(partition)[1] for partition in partitions) * (1 + len(through))

    def take(self) -> list[Any]:
        """What has come by now; lets the producer work."""
        self._producer.poll(0)
        batch = self._consumer.consume(AT_ONCE, 0)
        if batch:
            self._seen.add(len(batch))
        return batch

    def wait(self) -> list[Any]:
        """The next message, unless none comes for a while."""
        message = self._consumer.poll(IDLE)
        self._seen.add(1 if message else 0)
        return [message] if message else []

    def make_room(self) -> None:
        """Wait until the producer may take messages again."""
        self._producer.poll(0.05)

    def close(self) -> None:
        """Wait until all that was produced is safe; the consumer notes how far it came."""
        self._producer.flush()
        self._consumer.close()

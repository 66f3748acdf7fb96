"""Numbered messages in real time, at a rate: `python -m benchmarks.elasticity.numbers ADDRESS TOPIC RATE KEYS`.

It goes on until SIGTERM, and then says how many there were."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Signal

import msgspec
from confluent_kafka import Producer

from benchmarks.elasticity.pipelines import FILLING, Numbered, key_of
from benchmarks.sources import PARTITIONS
from benchmarks.topics import Topics, produce
from kafka.broker_jars import ROOT

_STEP = 0.001
_STRIDE = 7_919
"""A prime: messages in a row are of keys far apart, and each key has its turn."""


class Numbers:
    """A process that feeds a topic. `sent` is how many there were, once it has ended."""

    def __init__(self, topics: Topics, topic: str, rate: int, keys: int) -> None:
        words = (sys.executable, "-m", __name__, topics.address, topic, str(rate), str(keys))
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
        self.sent = 0

    def end(self) -> None:
        """Let it send what it has begun."""
        self._process.terminate()
        said, _ = self._process.communicate()
        self.sent = int(said or 0)


@contextmanager
def numbering(topics: Topics, topic: str, rate: int, keys: int) -> Iterator[Numbers]:
    """A topic is fed as long as the context is open."""
    numbers = Numbers(topics, topic, rate, keys)
    try:
        yield numbers
    finally:
        numbers.end()


def number(producer: Producer, topic: str, rate: int, keys: int, over: Signal) -> int:
    """Produce so many messages a second until it is over; how many there were."""
    begun, sent = time.time(), 0
    while not over.is_set():
        now = time.time()
        for _ in range(int((now - begun) * rate) - sent):
            key = sent * _STRIDE % keys
            value = msgspec.json.encode(Numbered(sent, int(now * 1000)))
            produce(producer, topic, key_of(key), value, int(now * 1000), key % PARTITIONS)
            sent += 1
        producer.poll(0)
        time.sleep(_STEP)
    return sent


def fill(address: str, topic: str, keys: int) -> None:
    """Produce a message for each key, which only fills its state."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "compression.type": "lz4"})
    now = int(time.time() * 1000)
    value = msgspec.json.encode(Numbered(FILLING, now))
    for key in range(keys):
        produce(producer, topic, key_of(key), value, now, key % PARTITIONS)
    producer.flush()


def main() -> None:
    """Feed until SIGTERM."""
    over = Signal()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    address, topic, rate, keys = sys.argv[1:]
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    sent = number(producer, topic, int(rate), int(keys), over)
    producer.flush()
    print(sent)


if __name__ == "__main__":
    main()

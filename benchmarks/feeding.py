"""A stream of events in real time, at a rate: `python -m benchmarks.feeding ADDRESS TOPIC RATE SECONDS`."""

import sys
import time
from collections.abc import Iterator
from itertools import cycle

import msgspec
from confluent_kafka import Producer

from benchmarks.events import Event, events

_STEP = 0.001
"""Seconds between two looks at the clock."""

_LINGER = 50
"""Milliseconds for which a fast stream gathers messages."""

_FAST = 10_000
_DISTINCT = 100_000


def feed(address: str, topic: str, rate: int, seconds: float) -> int:
    """Produce so many events a second, each stamped with the moment in which it is sent; how many there were."""
    linger = {"linger.ms": 0} if rate < _FAST else {"linger.ms": _LINGER, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": address, "partitioner": "murmur2_random", **linger})
    parts = cycle(list(_parts(min(_DISTINCT, int(rate * seconds)))))
    begun, sent = time.time(), 0
    while (passed := time.time() - begun) < seconds:
        at = int((begun + passed) * 1000)
        due = int(passed * rate)
        for _ in range(due - sent):
            key, before, after = next(parts)
            try:
                producer.produce(topic, b"%b%d%b" % (before, at, after), key, timestamp=at)
            except BufferError:
                break  # it falls behind: what was not sent is still due
            sent += 1
        producer.poll(0)
        time.sleep(_STEP)
    producer.flush()
    return sent


def _parts(count: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Keys, and the encoded events before and behind their time."""
    for event in events(count):
        before, _, after = msgspec.json.encode(_timeless(event)).partition(b'"at":0')
        yield event.user.encode(), before + b'"at":', after


def _timeless(event: Event) -> Event:
    return msgspec.structs.replace(event, at=0)


if __name__ == "__main__":
    address, topic, rate, seconds = sys.argv[1:]
    print(feed(address, topic, int(rate), float(seconds)))

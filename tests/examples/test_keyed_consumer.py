"""The example of a program with a consumer of its own: two processes share a topic, and one of them leaves."""

import asyncio
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from examples import keyed_consumer
from kafka.broker import Broker
from waiting import wait_until

ROOT = Path(__file__).parents[2]
PARTITIONS, CUSTOMERS = 4, 8


@contextmanager
def consuming(broker: Broker, topic: str, output: Path) -> Iterator["subprocess.Popen[bytes]"]:
    words = ["--servers", broker.address, "--topic", topic, "--group", topic]
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, "examples/keyed_consumer.py", *words], cwd=ROOT, stdout=file)
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(60) == 0


def send(broker: Broker, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in numbers:
        producer.produce(topic, key=b"c%d" % (number % CUSTOMERS), value=b"c%d %d" % (number % CUSTOMERS, number))
    assert producer.flush(30) == 0


def answers(output: Path) -> list[tuple[str, int]]:
    """The customer and the number of each order, as they were told."""
    lines = output.read_text().splitlines()
    return [(line.split()[-2], int(line.split()[-1])) for line in lines if line.endswith(tuple("0123456789"))]


def committed(broker: Broker, topic: str) -> int:
    """How many orders the group has committed, of all partitions together."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    partitions = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
    consumer.close()
    return sum(max(partition.offset, 0) for partition in partitions)


@pytest.mark.kafka
@pytest.mark.slow
def test_what_has_landed_is_committed(broker: Broker, topic: Callable[..., str]) -> None:
    orders, asked = topic(PARTITIONS), list[bytes]()
    send(broker, orders, range(20))

    async def main() -> None:
        stop = asyncio.Event()

        async def ask(order: bytes) -> str:
            asked.append(order)
            if len(asked) == 20:
                stop.set()
            return order.decode()

        await keyed_consumer.consume(broker.address, orders, orders, ask, stop)

    asyncio.run(main())
    assert len(set(asked)) == 20
    assert committed(broker, orders) == 20


@pytest.mark.kafka
@pytest.mark.long
def test_partitions_go_from_one_process_to_the_other_without_a_loss(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, first, second = topic(PARTITIONS), tmp_path / "first", tmp_path / "second"
    numbers = count()

    def told() -> set[tuple[str, int]]:
        return {*answers(first), *answers(second)} if second.exists() else set(answers(first))

    def shared() -> bool:
        send(broker, orders, islice(numbers, 20))
        return bool(answers(second))

    with consuming(broker, orders, first):
        send(broker, orders, islice(numbers, 200))
        wait_until(lambda: answers(first), "the first process begins")
        with consuming(broker, orders, second):
            wait_until(shared, "the second process has partitions")
        send(broker, orders, islice(numbers, 100))
        sent = next(numbers)
        wait_until(lambda: len(told()) == sent, "each order was answered")
    assert committed(broker, orders) == sent
    for output in (first, second):
        by_customer = defaultdict[str, dict[int, None]](dict)
        for customer, number in answers(output):
            by_customer[customer].setdefault(number)
        for ordered in by_customer.values():
            assert list(ordered) == sorted(ordered)

"""Each system under one fixture, and what tests of systems read with."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem, LogSystem, MemorySystem, System
from fluvial.runtime.systems.contract import PublishingSystem
from kafka.broker import Broker

Read = Callable[..., list[Record]]

EMBEDDED: dict[str, Callable[[Path], LogSystem | MemorySystem]] = {
    "log": lambda folder: LogSystem(folder, fsync=False),
    "memory": lambda _: MemorySystem(),
}


@pytest.fixture(params=EMBEDDED)
def publishing(request: pytest.FixtureRequest, tmp_path: Path) -> PublishingSystem:
    """An empty system of each kind that keeps prepared transactions."""
    return EMBEDDED[request.param](tmp_path)


@pytest.fixture(params=[*EMBEDDED, pytest.param("kafka", marks=pytest.mark.kafka)])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    """A system of each kind; on the Kafka broker there may be other streams, but none that tests make by name."""
    if request.param in EMBEDDED:
        return EMBEDDED[request.param](tmp_path)
    broker: Broker = request.getfixturevalue("broker")
    broker.remove_topics("clicks", "visits", "group-checkpoints", "one-checkpoints", "two-checkpoints")
    return KafkaSystem(broker.address)


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    """An empty log with the streams "clicks" (2 partitions) and "visits" (1)."""
    system = LogSystem(tmp_path, fsync=False)
    admin = system.admin()
    admin.create("clicks", 2)
    admin.create("visits", 1)
    return system


@pytest.fixture
def read() -> Read:
    """All records of a partition from an offset on, read by a new consumer."""

    def read_all(system: System, stream: str, partition: int = 0, offset: int = 0) -> list[Record]:
        end = system.admin().ends(stream)[partition]
        consumer = system.consumer()
        consumer.assign({(stream, partition): offset})
        records: list[Record] = []
        while offset < end:
            for batch in consumer.poll(60):
                offsets = [offset - 1, *batch.offsets]
                assert all(first < second for first, second in pairwise(offsets))
                assert len(batch.records) == len(batch.offsets)
                if not isinstance(system, KafkaSystem):
                    assert batch.next_offset == offset + len(batch.records)
                offset = batch.next_offset
                records += batch.records
        consumer.close()
        return records

    return read_all


@pytest.fixture
def numbered() -> Callable[..., list[Record]]:
    """Records whose values are the numbers of a range."""

    def records(*bounds: int) -> list[Record]:
        return [(None, b"%d" % number, number, ()) for number in range(*bounds)]

    return records

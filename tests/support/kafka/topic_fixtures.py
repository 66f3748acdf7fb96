"""A cluster, and what tests of it read and write with."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.contract import Consumer
from kafka.broker import Broker

PATIENCE = 60.0

Drain = Callable[[Consumer, int, int], tuple[list[int], list[Record]]]


@pytest.fixture
def kafka(broker: Broker) -> KafkaSystem:
    """The broker that tests share."""
    return KafkaSystem(broker.address, give_up_after=timedelta(seconds=PATIENCE))


@pytest.fixture
def name() -> str:
    """A name that no topic has."""
    return f"topic-{uuid4().hex[:12]}"


@pytest.fixture
def drain() -> Drain:
    """What a consumer has of its only partition, from an offset to an end: the offsets and the records."""

    def drain(consumer: Consumer, offset: int, end: int) -> tuple[list[int], list[Record]]:
        offsets: list[int] = []
        records: list[Record] = []
        while offset < end:
            for batch in consumer.poll(PATIENCE):
                offset = batch.next_offset
                offsets += batch.offsets
                records += batch.records
        return offsets, records

    return drain

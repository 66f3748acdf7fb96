"""How long brokers have been away, told from the errors of a client, and how long they leave a transaction open."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems.kafka.clients import ConnectionMonitor, producer_client, transaction_timeout
from fluvial.runtime.systems.kafka.record_producer import KafkaRecordProducer
from fluvial.runtime.systems.kafka.settings import KafkaSettings, Setting

DOWN, LOST = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._TRANSPORT, "connection refused")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0, 14), min_size=1))
def test_brokers_are_away_as_long_as_errors_keep_coming(pauses: list[float]) -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    for pause in pauses:
        clock.now += pause
        monitor(LOST)
        assert monitor.seconds_down == clock.now - 1000
    assert monitor.last == "connection refused"


def test_one_lost_connection_is_no_outage() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(LOST)
    clock.now += 1
    assert monitor.seconds_down == 0


def test_an_answer_ends_an_outage() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    monitor.answered()
    clock.now += 1
    assert monitor.seconds_down == 0


def test_silence_ends_an_outage_and_a_later_one_begins_anew() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    clock.now += 16
    assert monitor.seconds_down == 0
    monitor(DOWN)
    clock.now += 2
    assert monitor.seconds_down == 2


@pytest.mark.parametrize(("conf", "seconds"), [({}, 70), ({"transaction.timeout.ms": "2000"}, 2)])
def test_a_transaction_is_overdue_once_brokers_may_have_ended_it(conf: dict[str, Setting], seconds: int) -> None:
    now = [100.0]
    settings = KafkaSettings("127.0.0.1:1", conf, {}, 10.0, 10.0)
    machine = replace(THIS_MACHINE, clock=lambda: now[0])
    cluster: Any = SimpleNamespace(settings=settings, machine=machine, reach=lambda: None)
    made: dict[str, Any] = {}

    def make(settings: KafkaSettings, *given: Any, **more: Any) -> Any:
        made["client"] = producer_client(settings, *given, **more)
        return WithoutBroker()

    producer = KafkaRecordProducer(cluster, "id", make=make)
    assert not producer.is_overdue
    producer.begin()
    now[0] += seconds
    assert not producer.is_overdue
    now[0] += 1
    assert producer.is_overdue
    assert transaction_timeout(settings, timedelta(0)) == timedelta(seconds=seconds)
    assert transaction_timeout(settings, timedelta(minutes=5)) == timedelta(seconds=2 if conf else 310)
    assert made["client"]


class WithoutBroker:
    """A producer whose broker agrees to all."""

    def list_topics(self, timeout: float) -> None:
        """Connected."""

    def init_transactions(self, timeout: float) -> None:
        """The id is its own."""

    def begin_transaction(self) -> None:
        """One is open."""

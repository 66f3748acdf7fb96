"""What a run says where its clients of Kafka have too few file descriptors for their connections."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from engines.local_tasks import HandClock
from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.kafka import Cluster, KafkaConsumer
from fluvial.runtime.systems.kafka.clients import ConnectionMonitor
from fluvial.runtime.systems.kafka.record_producer import KafkaRecordProducer
from fluvial.runtime.systems.kafka.settings import KafkaSettings

NO_SOCKET = KafkaError(KafkaError._TRANSPORT, "localhost:9092/1: Failed to create socket: Too many open files")
MORE_FILES = r"(?s)Too many open files.*to do: raise the limit of open files \(ulimit -n\)"
SETTINGS = KafkaSettings("localhost:9092", {}, {}, reach_within=0.2, give_up_after=0.2)


class ProducerWithoutSockets:
    """A client whose error callback is called by `poll` alone, as that of librdkafka is."""

    def __init__(self, monitor: ConnectionMonitor) -> None:
        self._monitor = monitor

    def list_topics(self, **_: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def init_transactions(self, _: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for operation to finish"))

    def poll(self, _: float) -> None:
        self._monitor(NO_SOCKET)


def test_a_producer_that_cannot_connect_says_that_it_has_too_few_files() -> None:
    def without_sockets(_: KafkaSettings, monitor: ConnectionMonitor, *__: Any, **___: Any) -> Any:
        return ProducerWithoutSockets(monitor)

    cluster = cast("Cluster", SimpleNamespace(settings=SETTINGS, machine=THIS_MACHINE, reach=lambda: None))
    with pytest.raises(SystemProblem, match=MORE_FILES):
        KafkaRecordProducer(cluster, "visits", make=without_sockets)


class ConsumerWithoutSocket:
    """A client with no connection for messages, and perhaps one for metadata."""

    def __init__(self, monitor: ConnectionMonitor, clock: HandClock, *, metadata: bool) -> None:
        self._monitor, self._clock, self._metadata = monitor, clock, metadata

    def assign(self, _: object) -> None:
        pass

    def consume(self, *_: object) -> list[Message]:
        return []

    def poll(self, timeout: float) -> None:
        self._clock.now += timeout
        self._monitor(NO_SOCKET)

    def list_topics(self, **_: float) -> object:
        if not self._metadata:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={"clicks": None})


@pytest.fixture(params=[True, False], ids=["metadata", "no metadata"])
def reading(request: pytest.FixtureRequest) -> Callable[[int], KafkaConsumer]:
    """A consumer without a socket for messages, of a partition that has so many."""
    clock = HandClock()

    def make(_: KafkaSettings, monitor: ConnectionMonitor) -> Any:
        return ConsumerWithoutSocket(monitor, clock, metadata=request.param)

    def reading(count: int) -> KafkaConsumer:
        def ends(partitions: Iterable[StreamPartition]) -> dict[StreamPartition, int]:
            return dict.fromkeys(partitions, count)

        offsets = SimpleNamespace(starts=lambda partitions: dict.fromkeys(partitions, 0), log_ends=ends, ends=ends)
        machine = replace(THIS_MACHINE, clock=clock)
        cluster = cast(
            "Cluster", SimpleNamespace(settings=SETTINGS, machine=machine, offsets=offsets, check=lambda _: None)
        )
        reader = KafkaConsumer(cluster, max_records=10, make=make)
        reader.assign({("clicks", 0): 0})
        return reader

    return reading


def test_a_consumer_that_gets_no_message_for_want_of_files_ends(reading: Callable[[int], KafkaConsumer]) -> None:
    with pytest.raises(
        SystemProblem, match=f"(?s)'clicks', partition 0, but none has come for 0.2 s.*{MORE_FILES[4:]}"
    ):
        reading(1).poll(100.0)


def test_a_consumer_that_has_read_all_waits_on_without_files(reading: Callable[[int], KafkaConsumer]) -> None:
    assert reading(0).poll(100.0) == []

"""What a run says where its clients of Kafka have too few file descriptors for their connections."""

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.kafka import Cluster, KafkaConsumer, consumer, record_producer
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


def test_a_producer_that_cannot_connect_says_that_it_has_too_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_sockets(_: KafkaSettings, monitor: ConnectionMonitor, *__: Any, **___: Any) -> ProducerWithoutSockets:
        return ProducerWithoutSockets(monitor)

    monkeypatch.setattr(record_producer, "producer_client", without_sockets)
    cluster = cast("Cluster", SimpleNamespace(settings=SETTINGS, machine=THIS_MACHINE, reach=lambda: None))
    with pytest.raises(SystemProblem, match=MORE_FILES):
        KafkaRecordProducer(cluster, "visits")


class ConsumerWithoutSocket:
    """A client with no connection for messages, and perhaps one for metadata."""

    def __init__(self, monitor: ConnectionMonitor, *, metadata: bool) -> None:
        self._monitor, self._metadata = monitor, metadata

    def assign(self, _: object) -> None:
        pass

    def consume(self, *_: object) -> list[Message]:
        return []

    def poll(self, timeout: float) -> None:
        time.sleep(timeout)
        self._monitor(NO_SOCKET)

    def list_topics(self, **_: float) -> object:
        if not self._metadata:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={"clicks": None})


@pytest.fixture(params=[True, False], ids=["metadata", "no metadata"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], KafkaConsumer]:
    """A consumer without a socket for messages, of a partition that has so many."""

    def make(_: KafkaSettings, monitor: ConnectionMonitor) -> ConsumerWithoutSocket:
        return ConsumerWithoutSocket(monitor, metadata=request.param)

    def reading(count: int) -> KafkaConsumer:
        def ends(places: Iterable[StreamPartition]) -> dict[StreamPartition, int]:
            return dict.fromkeys(places, count)

        offsets = SimpleNamespace(starts=lambda places: dict.fromkeys(places, 0), log_ends=ends, ends=ends)
        cluster = cast(
            "Cluster", SimpleNamespace(settings=SETTINGS, machine=THIS_MACHINE, offsets=offsets, check=lambda _: None)
        )
        reader = KafkaConsumer(cluster, max_records=10)
        reader.assign({("clicks", 0): 0})
        return reader

    monkeypatch.setattr(consumer, "consumer_client", make)
    monkeypatch.setattr(consumer, "_LOOK_AFTER", 0.0)
    return reading


def test_a_consumer_that_gets_no_message_for_want_of_files_ends(reading: Callable[[int], KafkaConsumer]) -> None:
    with pytest.raises(
        SystemProblem, match=f"(?s)'clicks', partition 0, but none has come for 0.2 s.*{MORE_FILES[4:]}"
    ):
        reading(1).poll(3.0)


def test_a_consumer_that_has_read_all_waits_on_without_files(reading: Callable[[int], KafkaConsumer]) -> None:
    assert reading(0).poll(1.0) == []

"""Writing to topics: each record once and in order, together or not at all."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fluvial.dsl.errors import SystemProblem, TakenOver, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.contract import Consumer
from fluvial.runtime.systems.kafka import Cluster
from fluvial.runtime.systems.kafka.record_producer import KafkaRecordProducer
from fluvial.runtime.systems.kafka.settings import KafkaSettings
from kafka.broker import Broker
from waiting import wait_until

pytestmark = pytest.mark.kafka

MakeTopic = Callable[..., str]
Drain = Callable[[Consumer, int, int], tuple[list[int], list[Record]]]

ONE: Record = (b"key", b"value", 1, ())
TAKEN = "(?s)another run has taken over .*expected: one run of a pipeline at a time"


def numbered(*bounds: int) -> list[Record]:
    return [(b"%d" % number, bytes(100), 1 + number, ()) for number in range(*bounds)]


@pytest.fixture
def visible(kafka: KafkaSystem, drain: Drain) -> Callable[[str], list[Record]]:
    """The records of a topic's only partition that a reader of what is committed sees."""

    def visible(name: str) -> list[Record]:
        consumer = kafka.consumer()
        consumer.assign({(name, 0): 0})
        _, records = drain(consumer, 0, kafka.admin().ends(name)[0])
        consumer.close()
        return records

    return visible


def test_what_is_flushed_is_there_in_order(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    sender = kafka.record_producer()
    for start in range(0, 30_000, 1_000):
        sender.send(name, 0, numbered(start, start + 1_000))
    sender.flush()
    assert sender.ends([(name, 0)]) == {(name, 0): 30_000}
    sender.close()
    assert visible(name) == numbered(30_000)


class CountingCluster(Cluster):
    """A cluster that counts the requests about its topics."""

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings)
        self.requests = 0
        ask = self.request

        def counted(*words: Any) -> Any:
            self.requests += 1
            return ask(*words)

        self.request: Any = counted


def test_a_producer_that_knows_its_topics_asks_nothing_when_it_sends(kafka: KafkaSystem, topic: MakeTopic) -> None:
    names = [topic(), topic()]
    cluster = CountingCluster(kafka.settings)
    sender = KafkaRecordProducer(cluster)
    sender.learn(names)
    learned = cluster.requests
    for name in names:
        sender.send(name, 0, numbered(3))
    assert cluster.requests == learned > 0
    sender.flush()
    assert sender.ends([(name, 0) for name in names]) == {(name, 0): 3 for name in names}
    sender.close()


def test_what_is_sent_while_another_thread_flushes_is_there_in_order(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    sender = kafka.record_producer()
    sent = Event()

    def flush_again_and_again() -> int:
        flushes = 0
        while not sent.is_set():
            sender.flush()
            flushes += 1
        return flushes

    with ThreadPoolExecutor(1) as threads:
        flushing = threads.submit(flush_again_and_again)
        try:
            for start in range(0, 30_000, 100):
                sender.send(name, 0, numbered(start, start + 100))
        finally:
            sent.set()
        assert flushing.result() > 0
    sender.flush()
    sender.close()
    assert visible(name) == numbered(30_000)


def test_a_sender_waits_for_room(broker: Broker, topic: MakeTopic, visible: Callable[[str], list[Record]]) -> None:
    name = topic()
    sender = KafkaSystem(broker.address, conf={"queue.buffering.max.kbytes": 10}).record_producer()
    sender.send(name, 0, numbered(2_000))
    sender.flush()
    sender.close()
    assert visible(name) == numbered(2_000)


def test_what_is_committed_is_visible_together(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    sender = kafka.record_producer(name)
    for number in range(3):
        sender.begin()
        sender.send(name, 0, numbered(number, number + 1))
        sender.flush()
        assert visible(name) == numbered(number)
        sender.commit()
    sender.close()
    assert visible(name) == numbered(3)


def test_what_is_not_committed_is_dropped(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    sender = kafka.record_producer(name)
    sender.begin()
    sender.send(name, 0, [ONE])
    sender.flush()
    sender.close()
    assert visible(name) == []
    assert kafka.admin().ends(name) == [2]  # the dropped record, and the mark that says so


def test_a_newer_sender_takes_the_id(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    old = kafka.record_producer(name)
    old.begin()
    old.send(name, 0, numbered(1))
    old.flush()
    new = kafka.record_producer(name)
    with pytest.raises(SystemProblem, match=TAKEN):
        old.commit()
    with pytest.raises(SystemProblem, match=TAKEN):
        old.flush()
    old.close()
    new.begin()
    new.send(name, 0, numbered(1, 2))
    new.commit()
    new.close()
    assert visible(name) == numbered(1, 2)


def test_an_older_sender_learns_of_it_while_it_sends(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    old = kafka.record_producer(name)
    old.begin()
    old.send(name, 0, [ONE])
    old.flush()
    kafka.record_producer(name).close()
    old.send(name, 0, [ONE])
    for action in (old.flush, old.flush, old.commit, old.begin):
        with pytest.raises(SystemProblem, match=TAKEN):
            action()
    with pytest.raises(SystemProblem, match=TAKEN):
        old.send(name, 0, [ONE])
    old.close()


def test_a_record_that_the_broker_refuses_is_reported_from_then_on(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic(max_message_bytes="1000")
    sender = kafka.record_producer()
    sender.send(name, 0, [(None, bytes(5_000), 1, ())])
    for _ in range(2):
        with pytest.raises(
            SystemProblem, match=r"(?s)would not take a record of 5,000 bytes for .*MSG_SIZE_TOO_LARGE.*: raise"
        ):
            sender.flush()
    with pytest.raises(SystemProblem, match="MSG_SIZE_TOO_LARGE"):
        sender.send(name, 0, [ONE])
    sender.close()


def test_a_transaction_longer_than_brokers_allow_is_refused_at_once(kafka: KafkaSystem) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)INVALID_TRANSACTION_TIMEOUT.*to do: let the calls .* end sooner"):
        kafka.record_producer("long", longest=timedelta(minutes=20))


def test_a_record_that_the_client_refuses_is_reported_from_then_on(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    sender = kafka.record_producer()
    with pytest.raises(SystemProblem, match="MSG_SIZE_TOO_LARGE"):
        sender.send(name, 0, [(None, bytes(33 << 20), 1, ())])
    with pytest.raises(SystemProblem, match="MSG_SIZE_TOO_LARGE"):
        sender.flush()
    sender.close()


def test_unknown_topics_and_partitions_are_refused(kafka: KafkaSystem, topic: MakeTopic, name: str) -> None:
    there = topic()
    sender = kafka.record_producer()
    with pytest.raises(SystemProblem, match="there is no stream"):
        sender.send(name, 0, [ONE])
    with pytest.raises(SystemProblem, match="there is no stream"):
        sender.ends([(name, 0)])
    with pytest.raises(SystemProblem, match="has no partition 1"):
        sender.send(there, 1, [ONE])
    sender.close()


def test_calls_out_of_turn_are_refused(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    plain, transactional = kafka.record_producer(), kafka.record_producer(name)
    with pytest.raises(UsageError, match="no transactional id"):
        plain.begin()
    with pytest.raises(UsageError, match="no transaction to commit"):
        plain.commit()
    with pytest.raises(UsageError, match="within a transaction only"):
        transactional.send(name, 0, [ONE])
    transactional.begin()
    with pytest.raises(UsageError, match="open already"):
        transactional.begin()
    for sender in (plain, transactional):
        sender.close()
        sender.close()
        with pytest.raises(UsageError, match="is closed"):
            sender.flush()


def test_what_nobody_needs_any_more_is_removed(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic(2)
    sender = kafka.record_producer()
    sender.send(name, 0, numbered(10))
    sender.send(name, 1, numbered(10))
    sender.flush()
    sender.trim({(name, 0): 4, (name, 1): 0})
    sender.trim({})
    wait_until(lambda: kafka.admin().starts(name) == [4, 0], "four records are gone")
    sender.close()


def test_several_transactions_of_a_producer_may_be_open(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    producer = kafka.producer()
    first, second, dropped = producer.begin(), producer.begin(), producer.begin()
    for transaction, number in ((first, 0), (second, 1), (dropped, 2), (first, 3)):
        transaction.append(name, 0, numbered(number, number + 1))
    second.commit()
    first.commit()
    producer.close()
    assert visible(name) == numbered(1, 2) + numbered(0, 1) + numbered(3, 4)


def test_a_producer_goes_on_after_a_commit_that_failed(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name, other = topic(), topic(max_message_bytes="1000")
    producer = kafka.producer()
    failing, good = producer.begin(), producer.begin()
    failing.append(name, 0, [ONE])
    failing.append(other, 0, [(None, bytes(5_000), 1, ())])
    good.append(name, 0, [ONE])
    with pytest.raises(SystemProblem, match="MSG_SIZE_TOO_LARGE"):
        failing.commit()
    good.commit()
    producer.close()
    assert visible(name) == [ONE]


class Refusing:
    """The client of a sender whose broker refuses a commit."""

    def __init__(self, client: Any, code: int) -> None:
        self._client = client
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def commit_transaction(self, _: float) -> None:
        raise KafkaException(KafkaError(self._code))


@pytest.mark.parametrize(("taken", "wrong"), [(True, TAKEN), (False, "would not commit a transaction")])
def test_a_commit_that_is_refused_for_no_reason_is_asked_for_one(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]], *, taken: bool, wrong: str
) -> None:
    """Brokers give none where another sender takes the id while they begin to commit."""
    name = topic()
    sender = kafka.record_producer(f"{name}-id")
    sender.begin()
    sender.send(name, 0, [ONE])
    sender.flush()
    if taken:
        kafka.record_producer(f"{name}-id").close()
    sender._client = Refusing(sender._client, KafkaError.UNKNOWN)  # type: ignore[assignment]
    with pytest.raises(TakenOver if taken else SystemProblem, match=wrong):
        sender.commit()
    sender.close()
    assert visible(name) == []


def test_a_transaction_that_is_over_already_was_ended_by_the_next_sender(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    sender = kafka.record_producer(f"{name}-id")
    sender.begin()
    sender.send(name, 0, [ONE])
    sender.flush()
    sender._client = Refusing(sender._client, KafkaError.INVALID_TXN_STATE)  # type: ignore[assignment]
    with pytest.raises(TakenOver, match=TAKEN):
        sender.commit()
    sender.close()


class Forgetful:
    """The client of a sender that, as after a restart of a broker, does not know a partition for a while."""

    def __init__(self, client: Any, times: int) -> None:
        self._client = client
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def produce(self, *arguments: Any) -> None:
        if self._left:
            self._left -= 1
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self._client.produce(*arguments)


def test_a_partition_that_the_client_does_not_know_for_a_while_is_waited_for(
    kafka: KafkaSystem, topic: MakeTopic, visible: Callable[[str], list[Record]]
) -> None:
    name = topic()
    sender = kafka.record_producer()
    sender.send(name, 0, numbered(10))
    sender._client = Forgetful(sender._client, 3)  # type: ignore[assignment]
    sender.send(name, 0, numbered(10, 20))
    sender.flush()
    sender.close()
    assert visible(name) == numbered(20)


def test_a_topic_that_is_removed_while_it_is_written_to_is_reported(
    broker: Broker, kafka: KafkaSystem, topic: MakeTopic
) -> None:
    name = topic()
    sender = kafka.record_producer()
    sender.send(name, 0, [ONE])
    sender.flush()
    broker.remove_topics(name)
    sender._client = Forgetful(sender._client, 1_000)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(SystemProblem, match=f"there is no stream '{name}'"):
            sender.send(name, 0, [ONE])
    sender.close()

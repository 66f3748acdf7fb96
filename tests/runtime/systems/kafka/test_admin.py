"""Topics: how they are made, and what is told of them."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.kernel.time.bounds import LATEST
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.contract import StreamUse
from kafka.broker import Broker
from waiting import wait_until

pytestmark = pytest.mark.kafka

MakeTopic = Callable[..., str]
LONGEST = str(2**63 - 1)


@pytest.fixture
def settings(broker: Broker) -> Callable[[str], Mapping[str, str]]:
    """The settings of a topic."""
    return broker.settings_of


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        ("messages", {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.after.max.ms": LONGEST}),
        ("intermediate", {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}),
        (
            "changelog",
            {
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": "3600000",
                "message.timestamp.type": "LogAppendTime",
            },
        ),
        ("checkpoints", {"cleanup.policy": "compact", "segment.bytes": str(8 << 20)}),
    ],
)
def test_a_topic_has_the_settings_of_its_use(
    kafka: KafkaSystem, name: str, settings: Callable[[str], Mapping[str, str]], use: StreamUse, wanted: dict[str, str]
) -> None:
    kafka.admin().create(name, 1, use)
    assert settings(name).items() >= wanted.items()
    kafka.admin().create(name, 1, use)


def test_the_user_may_choose_settings_but_not_those_that_are_needed(
    broker: Broker, name: str, settings: Callable[[str], Mapping[str, str]]
) -> None:
    topics = {"retention.ms": 1_000, "max.message.bytes": 12_345, "replication.factor": 1}
    admin = KafkaSystem(broker.address, topics=topics).admin()
    admin.create(name, 1)
    admin.create(f"{name}-between", 1, "intermediate")
    assert settings(name).items() >= {"retention.ms": "1000", "max.message.bytes": "12345"}.items()
    assert settings(f"{name}-between").items() >= {"retention.ms": "-1", "max.message.bytes": "12345"}.items()


def test_the_limits_of_topics_are_reported_by_one_request(broker: Broker, topic: Callable[..., str]) -> None:
    low, usual = topic(max_message_bytes="20000"), topic()
    admin = KafkaSystem(broker.address, conf={"message.max.bytes": 1_000_000}).admin()
    limits = admin.record_limits([low, "nothing", usual])
    assert {name: limit.largest for name, limit in limits.items()} == {low: 19_488, usual: 999_488}
    assert f"--alter --topic {low} --add-config max.message.bytes" in limits[low].remedy


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ({"replication.factor": 3}, "(?s)would not make the topic.*INVALID_REPLICATION_FACTOR.*set replication.factor"),
        ({"retention": 3}, "(?s)would not make the topic.*retention.*INVALID_CONFIG.*correct the settings of topics"),
    ],
)
def test_settings_that_the_cluster_refuses_are_reported(
    broker: Broker, name: str, topics: dict[str, str | int], told: str
) -> None:
    with pytest.raises(SystemProblem, match=told):
        KafkaSystem(broker.address, topics=topics).admin().create(name, 1)


@pytest.mark.parametrize(
    ("use", "config"),
    [
        ("changelog", {}),
        ("changelog", {"cleanup_policy": "compact,delete"}),
        ("checkpoints", {"cleanup_policy": "delete"}),
        ("intermediate", {"retention_ms": "1000"}),
        ("intermediate", {"retention_bytes": "1000", "retention_ms": "-1"}),
        ("intermediate", {"cleanup_policy": "compact"}),
        ("intermediate", {"message_timestamp_after_max_ms": "3600000", "retention_ms": "-1"}),
        ("intermediate", {"message_timestamp_type": "LogAppendTime", "retention_ms": "-1"}),
    ],
)
def test_a_topic_that_would_lose_what_is_needed_is_refused(
    kafka: KafkaSystem, topic: MakeTopic, use: StreamUse, config: dict[str, str]
) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)it would lose what is still needed.*kafka-configs\.sh"):
        kafka.admin().create(topic(**config), 1, use)


def test_brokers_that_are_fenced_for_a_moment_are_waited_for(
    kafka: KafkaSystem, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So a controller answers that has just been paused or started; a real one does so too seldom for a test.
    make, fenced = (
        AdminClient.create_topics,
        ["Unable to replicate the partition 1 time(s): All brokers are currently fenced."],
    )

    def create_topics(client: AdminClient, *arguments: Any, **named: Any) -> dict[str, Future[None]]:
        if not fenced:
            return make(client, *arguments, **named)
        refused: Future[None] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, fenced.pop())))
        return {name: refused}

    monkeypatch.setattr(AdminClient, "create_topics", create_topics)
    kafka.admin().create(name, 1)
    assert (kafka.admin().partitions(name), fenced) == (1, [])


def test_a_topic_of_the_users_own_making_is_taken_as_it_is(kafka: KafkaSystem, topic: MakeTopic) -> None:
    kafka.admin().create(topic(2, retention_ms="1000"), 2)


def test_kafkas_own_topics_are_not_listed(kafka: KafkaSystem, name: str) -> None:
    producer = kafka.producer()
    producer.begin().commit(name, {"task": b"1"})
    producer.close()
    assert [name for name in kafka.admin().streams() if name.startswith("__")] == []


def test_a_topic_made_anew_is_another(kafka: KafkaSystem, broker: Broker, topic: MakeTopic) -> None:
    name = topic()
    admin = kafka.admin()
    first = admin.identity(name)
    assert admin.identity(name) == first
    broker.remove_topics(name)
    admin.create(name, 1)
    assert admin.identity(name) != first


def test_an_unknown_topic_has_no_identity(kafka: KafkaSystem, name: str) -> None:
    with pytest.raises(SystemProblem, match="there is no stream"):
        kafka.admin().identity(name)


def test_what_a_transaction_has_not_committed_lies_behind_the_end(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    sender = kafka.record_producer(name)
    sender.begin()
    sender.send(name, 0, [(None, b"1", 1, ())])
    sender.flush()
    assert (kafka.admin().ends(name), sender.ends([(name, 0)])) == ([0], {(name, 0): 1})
    sender.commit()
    sender.close()
    assert kafka.admin().ends(name) == [2]  # Kafka marks the end of a transaction with a record of its own


def test_a_reader_of_what_is_not_committed_sees_it(broker: Broker, kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    sender = kafka.record_producer(name)
    sender.begin()
    sender.send(name, 0, [(None, b"1", 1, ())])
    sender.flush()
    assert KafkaSystem(broker.address, conf={"isolation.level": "read_uncommitted"}).admin().ends(name) == [1]
    sender.close()


def test_a_checkpoint_can_be_taken_back(kafka: KafkaSystem, name: str) -> None:
    admin = kafka.admin()
    admin.create(f"{name}-checkpoints", 1, "checkpoints")
    sender = kafka.record_producer()
    sender.send(f"{name}-checkpoints", 0, [(b"a", b"1", 1, ()), (b"b", b"1", 1, ()), (b"a", b"2", 1, ())])
    sender.send(f"{name}-checkpoints", 0, [(b"b", None, 1, ())])
    sender.flush()
    sender.close()
    assert admin.checkpoints(name) == {"a": b"2"}


def test_offsets_are_noted_for_those_who_watch_lag(kafka: KafkaSystem, broker: Broker, topic: MakeTopic) -> None:
    name = topic(2)
    admin = kafka.admin()
    admin.offsets.report(name, {(name, 0): 7, (name, 1): 9})
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": name})
    partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    wait_until(lambda: [one.offset for one in reader.committed(partitions)] == [7, 9], "the offsets are there")
    reader.close()


def test_a_time_is_the_offset_of_the_first_record_that_is_not_older(kafka: KafkaSystem, name: str) -> None:
    admin = kafka.admin()
    admin.create(name, 2)
    assert admin.offsets.since(name, 1_000) == [0, 0]
    writing = kafka.producer().begin()
    writing.append(name, 0, [(None, b"", time, ()) for time in (1_000, 3_000, 2_000)])
    writing.commit()
    assert admin.offsets.since(name, 1_000) == [0, 0]
    assert admin.offsets.since(name, 1_001) == [1, 0]
    # Behind the last record, and the mark of the transaction.
    assert admin.offsets.since(name, 3_001) in ([3, 0], [4, 0])
    assert admin.offsets.since(name, LATEST) == admin.ends(name)

"""What Fluvial will rely on in a Kafka broker, and that the broker of the tests can be crashed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluvial.runtime.systems.partitioner import partition_for
from kafka.broker import Broker
from kafka.broker_jars import BrokerProblem

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("broker")]  # which skips them where there can be none

PATIENCE = 60.0
MakeTopic = Callable[..., str]
Headers = list[tuple[str, str | bytes | None]]


def producer(broker: Broker, **config: Any) -> Producer:
    """A producer, quiet about the connections that it loses when a broker is killed."""
    options = {setting.replace("_", "."): value for setting, value in config.items()}
    return Producer({"bootstrap.servers": broker.address, "log_level": 0, **options})


def read(broker: Broker, topic: str, *, offset: int = 0, isolation: str = "read_committed") -> list[Message]:
    """What is in the topic's only partition from an offset to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",  # the client wants one, also where it joins none
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end is told after it
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    messages: list[Message] = []
    while (message := next_of(consumer)) is not None:
        messages.append(message)
    consumer.close()
    return messages


def next_of(consumer: Consumer) -> Message | None:
    """The next message, None at the end."""
    message = consumer.poll(PATIENCE)
    assert message is not None, "the broker is silent"
    error = message.error()
    assert error is None or error.code() == KafkaError._PARTITION_EOF, error
    return None if error else message


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def test_a_record_comes_back_whole_by_its_offset(broker: Broker, topic: MakeTopic) -> None:
    name = topic()
    headers: Headers = [("kind", b"click"), ("kind", b"again"), ("empty", b""), ("none", None)]
    records: list[tuple[bytes | None, bytes | None, int, Headers]] = [
        (b"key", b"value", 1, headers),
        (None, b"", 1_000, []),
        (b"", None, 253_402_300_800_000, [("\N{SNOWMAN}", bytes(range(256)))]),
    ]
    client = producer(broker)
    for key, value, timestamp, more in records:
        client.produce(name, value, key, partition=0, timestamp=timestamp, headers=more)
    assert client.flush(PATIENCE) == 0

    came = [(m.offset(), m.key(), m.value(), m.timestamp()[1], m.headers() or []) for m in read(broker, name)]

    assert came == [(offset, *record) for offset, record in enumerate(records)]
    assert values(read(broker, name, offset=2)) == [None]


def test_an_aborted_transaction_is_not_read_and_a_committed_one_is(broker: Broker, topic: MakeTopic) -> None:
    name = topic()
    client = producer(broker, transactional_id=name)
    client.init_transactions(PATIENCE)
    for value, end in ((b"dropped", client.abort_transaction), (b"kept", client.commit_transaction)):
        client.begin_transaction()
        client.produce(name, value, partition=0)
        assert client.flush(PATIENCE) == 0
        end(PATIENCE)

    assert values(read(broker, name)) == [b"kept"]
    assert values(read(broker, name, isolation="read_uncommitted")) == [b"dropped", b"kept"]


@pytest.mark.slow
@pytest.mark.long  # of Kafka itself; tests/systems/test_broker_outages.py sends and reads through a crash
def test_what_was_acknowledged_outlives_a_crash(tmp_path: Path) -> None:
    acknowledged: dict[int, bytes | None] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            acknowledged[offset] = message.value()

    with Broker(tmp_path) as broker:
        name, address = broker.make_topic(), broker.address
        client = producer(broker, acks="all")
        for number in range(5_000):
            client.produce(name, b"%d" % number, partition=0, on_delivery=note)
        while len(acknowledged) < 1_000:
            client.poll(PATIENCE)
        broker.kill()
        client.purge()
        client.flush(PATIENCE)

        broker.start()

        assert broker.address == address
        there = {message.offset(): message.value() for message in read(broker, name)}
        assert acknowledged.items() <= there.items()


def test_a_broker_that_ends_at_its_start_shows_the_end_of_its_output(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\nprocess.roles=waiter\n")
    told = r"(?s)ended with 1 instead of answering; the end of .*waiter"
    with pytest.raises(BrokerProblem, match=told), Broker(tmp_path):
        pass


def test_a_second_broker_on_a_folder_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerProblem, match="is taken"), Broker(broker.output.parent):
        pass


@pytest.mark.parametrize("partitions", [3, 8])
def test_the_client_and_fluvial_choose_the_same_partition_for_a_key(
    broker: Broker, topic: MakeTopic, partitions: int
) -> None:
    name = topic(partitions)
    client = producer(broker, partitioner="murmur2_random", linger_ms=0)

    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sets(st.binary(), min_size=1, max_size=100))
    def agree(keys: set[bytes]) -> None:
        chosen: dict[bytes | None, int | None] = {}
        for key in keys:
            client.produce(
                name, b"", key, on_delivery=lambda _, message: chosen.update({message.key(): message.partition()})
            )
        assert client.flush(PATIENCE) == 0
        assert chosen == {key: partition_for(key, partitions) for key in keys}

    agree()

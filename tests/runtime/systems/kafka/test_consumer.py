"""Reading a topic as Kafka is: with gaps, aborted transactions, and partitions that are not wanted for a while."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.contract import Consumer, RecordProducer, StreamPartition
from fluvial.runtime.systems.errors import unknown_stream
from fluvial.runtime.systems.kafka import Cluster, KafkaConsumer
from fluvial.runtime.systems.kafka.offsets import TopicOffsets
from fluvial.runtime.systems.kafka.records import TIME_HEADER
from kafka.broker import Broker
from waiting import wait_until

MakeTopic = Callable[..., str]
Drain = Callable[[Consumer, int, int], tuple[list[int], list[Record]]]

PATIENCE = 60.0
PARTITIONS = 3


def numbered(count: int, size: int = 10) -> list[Record]:
    return [(b"%d" % number, bytes(size), 1 + number, ()) for number in range(count)]


@dataclass(frozen=True)
class Written:
    """A transaction: how many records it writes to each partition, and whether it is committed."""

    counts: tuple[int, ...]
    committed: bool


written = st.builds(Written, st.tuples(*[st.integers(0, 100)] * PARTITIONS), st.booleans())
wishes = st.lists(st.frozensets(st.integers(0, PARTITIONS - 1)), min_size=1, max_size=8)


def write(system: KafkaSystem, stream: str, script: list[Written]) -> dict[StreamPartition, list[Record]]:
    """Do what a script says; gives what readers are to see."""
    seen: dict[StreamPartition, list[Record]] = {(stream, number): [] for number in range(PARTITIONS)}
    id, made = uuid4().hex, 0
    sender = system.record_producer(id)
    for transaction in script:
        sender.begin()
        for (partition, expected), count in zip(seen.items(), transaction.counts, strict=True):
            records: list[Record] = [(b"%d" % number, b"x" * 20, number, ()) for number in range(made, made + count)]
            made += count
            sender.send(*partition, records)
            expected.extend(records if transaction.committed else [])
        if transaction.committed:
            sender.commit()
        else:
            sender.flush()
            sender.close()
            sender = system.record_producer(id)
    sender.close()
    return seen


@pytest.mark.kafka
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    script=st.lists(written, min_size=1, max_size=5),
    wishes=wishes,
    max_records=st.sampled_from([10, 500]),
    max_prefetched_bytes=st.sampled_from([1, 2_000, 8 << 20]),
)
def test_what_was_committed_comes_once_and_in_order_whatever_is_wanted_when(
    kafka: KafkaSystem,
    topic: MakeTopic,
    script: list[Written],
    wishes: list[frozenset[int]],
    max_records: int,
    max_prefetched_bytes: int,
) -> None:
    name = topic(PARTITIONS)
    expected = write(kafka, name, script)
    ends = {(name, number): end for number, end in enumerate(kafka.admin().ends(name))}
    seen: dict[StreamPartition, list[Record]] = {partition: [] for partition in ends}
    positions = dict.fromkeys(ends, 0)
    consumer = KafkaConsumer(
        Cluster(kafka.settings), max_records=max_records, max_prefetched_bytes=max_prefetched_bytes
    )
    consumer.assign(positions)
    turns = iterate(wishes)
    while positions != ends:
        wanted = next(turns)
        batches = consumer.poll(0.02, None if wanted is None else frozenset((name, number) for number in wanted))
        partitions = [(batch.stream, batch.partition) for batch in batches]
        assert len(set(partitions)) == len(partitions)
        assert wanted is None or all(number in wanted for _, number in partitions)
        for partition, batch in zip(partitions, batches, strict=True):
            assert list(batch.offsets) == sorted({*batch.offsets})
            assert len(batch.offsets) == len(batch.records) <= max_records
            assert not batch.records or batch.offsets[0] >= positions[partition]
            assert batch.next_offset > positions[partition]
            positions[partition] = batch.next_offset
            seen[partition] += batch.records
    consumer.close()
    assert seen == expected


def iterate(wishes: list[frozenset[int]]) -> Iterator[frozenset[int] | None]:
    """The wishes, again and again; now and then all."""
    while True:
        yield from wishes
        yield None


changes = st.lists(
    st.tuples(st.frozensets(st.integers(0, PARTITIONS - 1)), st.none() | st.integers(0, PARTITIONS - 1)),
    min_size=1,
    max_size=6,
)
"""Which partitions are read from then on, and which of them from further back."""


@pytest.mark.kafka
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    script=st.lists(written, min_size=1, max_size=4),
    changes=changes,
    wishes=wishes,
    max_prefetched_bytes=st.sampled_from([1, 8 << 20]),
)
def test_partitions_that_come_and_go_give_each_record_once_and_in_order(
    kafka: KafkaSystem,
    topic: MakeTopic,
    script: list[Written],
    changes: list[tuple[frozenset[int], int | None]],
    wishes: list[frozenset[int]],
    max_prefetched_bytes: int,
) -> None:
    name = topic(PARTITIONS)
    expected = write(kafka, name, script)
    ends = {(name, number): end for number, end in enumerate(kafka.admin().ends(name))}
    seen: dict[StreamPartition, list[tuple[int, Record]]] = {partition: [] for partition in ends}
    positions = dict.fromkeys(ends, 0)
    consumer = KafkaConsumer(Cluster(kafka.settings), max_records=5, max_prefetched_bytes=max_prefetched_bytes)
    consumer.assign(positions)
    turns = iterate(wishes)
    for numbers, back in [*changes, (frozenset(range(PARTITIONS)), None)]:
        wanted = next(turns)
        for batch in consumer.poll(0.3, None if wanted is None else frozenset((name, number) for number in wanted)):
            partition = batch.stream, batch.partition
            positions[partition] = batch.next_offset
            seen[partition] += zip(batch.offsets, batch.records, strict=True)
        if back is not None:
            partition = name, back
            half = seen[partition][len(seen[partition]) // 2 :]
            seen[partition] = seen[partition][: len(seen[partition]) // 2]
            positions[partition] = half[0][0] if half else positions[partition]
        consumer.assign({(name, number): positions[name, number] for number in numbers})
    while positions != ends:
        for batch in consumer.poll(0.02):
            partition = batch.stream, batch.partition
            positions[partition] = batch.next_offset
            seen[partition] += zip(batch.offsets, batch.records, strict=True)
    consumer.close()
    assert {partition: [record for _, record in records] for partition, records in seen.items()} == expected


@pytest.mark.kafka
@pytest.mark.parametrize("others", [True, False])
def test_a_partition_that_was_paused_is_read_once_it_is_assigned_again(
    kafka: KafkaSystem, topic: MakeTopic, others: bool
) -> None:
    name = topic(2)
    sender = kafka.record_producer()
    sender.send(name, 0, numbered(500, size=100))
    sender.send(name, 1, numbered(5))
    sender.flush()
    consumer = KafkaConsumer(Cluster(kafka.settings), max_records=10, max_prefetched_bytes=1)
    consumer.assign({(name, 0): 0, (name, 1): 0})
    wanted, read = frozenset([(name, 1)]), 0
    until = time.monotonic() + PATIENCE
    while not (consumer.paused and read == 5) and time.monotonic() < until:
        read = max([read, *(batch.next_offset for batch in consumer.poll(0.05, wanted))])
    assert consumer.paused == {(name, 0)}
    stays = {(name, 1): 5} if others else {}
    consumer.assign(stays or {(name, 1): 0})
    consumer.assign({**stays, (name, 0): 3})
    came = list[int]()
    while len(came) < 497 and time.monotonic() < until:
        came += [offset for batch in consumer.poll(0.1) if batch.partition == 0 for offset in batch.offsets]
    consumer.close()
    assert came == [*range(3, 500)]


timestamps = st.sampled_from([0, 1, -1, -5, 2**62, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
names = st.sampled_from([TIME_HEADER, ""]) | st.text(st.characters(exclude_characters="\0", codec="utf-8"))
headers = st.lists(st.tuples(names, st.binary(max_size=20)), max_size=3).map(tuple)
data = st.none() | st.binary(max_size=50)
records = st.lists(st.tuples(data, data, timestamps, headers), min_size=1, max_size=20)


@pytest.mark.kafka
def test_every_record_comes_back_as_it_was(kafka: KafkaSystem, topic: MakeTopic, drain: Drain) -> None:
    name = topic(message_timestamp_before_max_ms=str(2**63 - 1), message_timestamp_after_max_ms=str(2**63 - 1))
    sender, consumer = kafka.record_producer(), kafka.consumer()

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(records)
    def check(records: list[Record]) -> None:
        start = sender.ends([(name, 0)])[name, 0]
        sender.send(name, 0, records)
        sender.flush()
        consumer.assign({(name, 0): start})
        offsets, came = drain(consumer, start, start + len(records))
        assert (offsets, came) == (list(range(start, start + len(records))), records)

    check()
    sender.close()
    consumer.close()


@pytest.mark.kafka
def test_headers_of_other_clients_may_lack_a_value(
    kafka: KafkaSystem, broker: Broker, topic: MakeTopic, drain: Drain
) -> None:
    name = topic()
    client = Producer({"bootstrap.servers": broker.address})
    client.produce(name, b"", b"", 0, headers=[("none", None), ("text", "ä")], timestamp=5)
    assert client.flush(PATIENCE) == 0
    consumer = kafka.consumer()
    consumer.assign({(name, 0): 0})
    assert drain(consumer, 0, 1)[1] == [(b"", b"", 5, (("none", b""), ("text", "ä".encode())))]


@pytest.mark.kafka
def test_the_broker_may_stamp_what_it_appends(kafka: KafkaSystem, topic: MakeTopic, drain: Drain) -> None:
    name, before = topic(message_timestamp_type="LogAppendTime"), int(1000 * time.time())
    send(kafka.record_producer(), name, numbered(1))
    consumer = kafka.consumer()
    consumer.assign({(name, 0): 0})
    ((_, _, timestamp, _),) = drain(consumer, 0, 1)[1]
    assert timestamp >= before - 1000


def send(sender: RecordProducer, stream: str, records: list[Record]) -> None:
    sender.send(stream, 0, records)
    sender.flush()
    sender.close()


def poll_for_ever(consumer: Consumer) -> None:
    while True:
        consumer.poll(PATIENCE)


@pytest.mark.kafka
def test_two_topics_are_told_apart(kafka: KafkaSystem, topic: MakeTopic) -> None:
    names = [topic(), topic()]
    for name in names:
        send(kafka.record_producer(), name, numbered(1000))
    consumer = kafka.consumer()
    consumer.assign({(name, 0): 0 for name in names})
    seen: dict[str, list[Record]] = {name: [] for name in names}
    while sum(map(len, seen.values())) < 2000:
        for batch in consumer.poll(PATIENCE):
            seen[batch.stream] += batch.records
    consumer.close()
    assert seen == {name: numbered(1000) for name in names}


@pytest.mark.kafka
@pytest.mark.parametrize("offset", [-1, 0, 2, 6])
def test_an_offset_outside_of_the_partition_is_refused(kafka: KafkaSystem, topic: MakeTopic, offset: int) -> None:
    name = topic()
    sender = kafka.record_producer()
    sender.send(name, 0, numbered(5))
    sender.flush()
    sender.trim({(name, 0): 3})
    wait_until(lambda: kafka.admin().starts(name) == [3], "three records are gone")
    with pytest.raises(SystemProblem, match=f"(?s)offset {offset} lies outside partition 0 .*expected: 3 to 5"):
        kafka.consumer().assign({(name, 0): offset})
    sender.close()


@pytest.mark.kafka
def test_what_is_removed_before_it_is_read_is_missed(kafka: KafkaSystem, topic: MakeTopic) -> None:
    name = topic()
    sender = kafka.record_producer()
    sender.send(name, 0, numbered(500, size=100))
    sender.flush()
    consumer = KafkaConsumer(Cluster(kafka.settings), max_records=1, max_prefetched_bytes=1)
    consumer.assign({(name, 0): 0})
    while not consumer.poll(0.05, frozenset()) and not consumer.paused:
        pass
    sender.trim({(name, 0): 500})
    wait_until(lambda: kafka.admin().starts(name) == [500], "all records are gone")
    with pytest.raises(SystemProblem, match=r"(?s)offset \d+ lies outside partition 0 .*expected: 500 to 500"):
        poll_for_ever(consumer)
    consumer.close()
    sender.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_topic_that_is_removed_while_it_is_read_is_unknown(
    kafka: KafkaSystem, broker: Broker, topic: MakeTopic
) -> None:
    name = topic()
    fast = replace(THIS_MACHINE, clock=lambda: 100 * time.monotonic())  # it looks again after 0.3 s
    consumer = KafkaConsumer(Cluster(kafka.settings, fast), max_records=10)
    consumer.assign({(name, 0): 0})
    consumer.poll(0.2)
    broker.remove_topics(name)
    with pytest.raises(SystemProblem, match="there is no stream"):
        poll_for_ever(consumer)
    consumer.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_compacted_topic_is_read_with_its_gaps(kafka: KafkaSystem, topic: MakeTopic, drain: Drain) -> None:
    often = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "500", "max_compaction_lag_ms": "1"}
    name = topic(cleanup_policy="compact", **often)
    now = int(1000 * time.time())
    sender = kafka.record_producer()
    for _ in range(20):
        sender.send(name, 0, [(b"%d" % (number % 7), b"%d" % number, now, ()) for number in range(50)])
        sender.flush()
    offsets: list[int] = [*range(1000)]
    came: list[Record] = []
    while len(offsets) >= 1000:
        # A segment is compacted once a newer one has begun.
        now = int(1000 * time.time())
        sender.send(name, 0, [(b"last", b"", now, ())])
        sender.flush()
        end = kafka.admin().ends(name)[0]
        consumer = kafka.consumer()
        consumer.assign({(name, 0): end})
        consumer.poll(1.0)  # nothing comes: this gives the broker time
        consumer.assign({(name, 0): 0})
        offsets, came = drain(consumer, 0, end)
    sender.close()
    assert offsets == sorted(set(offsets))
    assert {key: value for key, value, _, _ in came if key != b"last"} == {
        b"%d" % (number % 7): b"%d" % number for number in range(43, 50)
    }


class Client:
    """A client that gives what a test has put into it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.changes: list[tuple[str, list[Any]]] = []
        self.topics = {"here": None}
        self.closed = 0

    def list_topics(self, timeout: float) -> "Client":
        del timeout
        return self

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.changes.append(("assign", [(partition.partition, partition.offset) for partition in partitions]))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.changes.append(("add", [(partition.partition, partition.offset) for partition in partitions]))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.changes.append(("remove", [partition.partition for partition in partitions]))

    def consume(self, count: int, timeout: float) -> list[Message]:
        del count, timeout
        given, self.messages = self.messages, []
        return given

    def poll(self, timeout: float) -> None: ...

    def close(self) -> None:
        self.closed += 1


class Offsets(TopicOffsets):
    """Each partition has the offsets 0 to 99."""

    def __init__(self) -> None: ...

    def starts(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        return dict.fromkeys(partitions, 0)

    def log_ends(self, partitions: Collection[StreamPartition], *, patience: float | None = None) -> dict[Any, int]:
        del patience
        return dict.fromkeys(partitions, 100)


class Topics(Cluster):
    """A cluster that sends no request. It has the topic `here`, until that is removed."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(KafkaSystem("nowhere:9092").settings, replace(THIS_MACHINE, clock=lambda: self.now))
        self.removed = False

    @property
    def offsets(self) -> TopicOffsets:
        return Offsets()

    def topic(self, stream: str) -> Any:
        raise unknown_stream(stream, (), self.settings.url)

    def check(self, partitions: Iterable[StreamPartition]) -> None:
        for stream, _ in partitions:
            if self.removed:
                raise unknown_stream(stream, (), self.settings.url)


@dataclass
class Reading:
    """A consumer of the partitions 0 and 1 of a topic, whose client and cluster the test holds."""

    cluster: Topics = field(default_factory=Topics)
    client: Client = field(default_factory=Client)

    def __post_init__(self) -> None:
        client: Any = self.client
        self.consumer = KafkaConsumer(self.cluster, max_records=10, make=lambda *_: client)
        self.consumer.assign({("here", 0): 0, ("here", 1): 0})

    def gives(self, *messages: Message) -> list[tuple[int, list[int], int]]:
        """What comes of messages of the client: partition, offsets and next offset of each batch."""
        self.client.messages.extend(messages)
        return [(batch.partition, list(batch.offsets), batch.next_offset) for batch in self.consumer.poll()]


def message(partition: int, offset: int, error: int | None = None) -> Message:
    failed = None if error is None else KafkaError(error)
    return Message(topic="here", partition=partition, offset=offset, value=b"x", timestamp=(1, 5), error=failed)


def test_the_mark_of_an_end_moves_a_partition_past_a_gap() -> None:
    assert Reading().gives(message(0, 3), message(0, 9, KafkaError._PARTITION_EOF)) == [(0, [3], 9)]
    assert Reading().gives(message(0, 9, KafkaError._PARTITION_EOF)) == [(0, [], 9)]


def test_what_comes_of_a_partition_that_is_no_longer_read_is_dropped() -> None:
    reading = Reading()
    reading.consumer.assign({("here", 1): 0})
    late = (message(0, 3), message(0, 9, KafkaError._PARTITION_EOF))
    assert reading.gives(*late, message(1, 0)) == [(1, [0], 1)]


def test_what_was_fetched_of_a_partition_that_is_still_read_stays() -> None:
    reading = Reading()
    assert reading.gives(message(0, 0), message(1, 0)) == [(0, [0], 1), (1, [0], 1)]
    reading.client.messages.extend([message(0, 1), message(1, 1)])
    assert reading.consumer.poll(wanted=frozenset([("here", 1)]))[0].offsets == range(1, 2)
    reading.consumer.assign({("here", 0): 1, ("here", 2): 7})
    assert reading.client.changes[1:] == [("remove", [1]), ("add", [(2, 7)])]
    assert reading.gives(message(2, 7)) == [(0, [1], 2)]  # it was fetched before
    assert reading.gives() == [(2, [7], 8)]
    reading.consumer.assign({("here", 0): 1, ("here", 2): 8})
    assert reading.client.changes[3:] == [("remove", [0]), ("add", [(0, 1)])], "it is read again"


@pytest.mark.parametrize(
    "error",
    [KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._MAX_POLL_EXCEEDED],
    ids=["the connection", "another leader", "a group that nobody uses"],
)
def test_errors_that_end_by_themselves_lose_nothing_of_what_comes_around_them(error: int) -> None:
    assert Reading().gives(message(0, 3), message(0, -1, error), message(0, 4)) == [(0, [3], 4)]


def test_a_topic_that_the_client_does_not_know_is_looked_for() -> None:
    reading, gone = Reading(), message(1, -1, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert reading.gives(gone, message(0, 0)) == [(0, [0], 1)]  # a broker that has just come back says so, too
    reading.cluster.removed = True
    with pytest.raises(SystemProblem, match="there is no stream 'here'"):
        reading.gives(gone)


@pytest.mark.parametrize(
    "error", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED]
)
def test_a_late_error_of_a_partition_that_is_no_longer_read_ends_nothing(error: int) -> None:
    reading = Reading()
    reading.consumer.assign({("here", 1): 0})
    reading.cluster.removed = True
    assert reading.gives(message(0, 3, error), message(1, 0)) == [(1, [0], 1)]


def test_an_error_of_all_partitions_of_a_topic_that_is_read_counts() -> None:
    with pytest.raises(SystemProblem, match="would not give messages of 'here'"):
        Reading().gives(message(-1, -1, KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_a_removed_topic_is_found_though_partitions_come_and_go_all_the_time() -> None:
    reading = Reading()
    del reading.client.topics["here"]

    def change_each_second() -> None:
        for second in range(60):
            reading.cluster.now += 1
            reading.consumer.assign({("here", 0): 0, ("here", 1 + second % 2): 0})
            reading.gives()

    with pytest.raises(SystemProblem, match="there is no stream 'here'"):
        change_each_second()


def test_an_offset_that_was_removed_is_reported_with_those_that_are_there() -> None:
    with pytest.raises(SystemProblem, match=r"(?s)offset 8 lies outside partition 1 .*expected: 0 to 100"):
        Reading().gives(message(1, 7), message(1, 7, KafkaError._AUTO_OFFSET_RESET))


def test_any_other_error_says_of_which_partition_and_what_to_do() -> None:
    with pytest.raises(SystemProblem, match=r"(?s)would not give messages of 'here', partition 1: .*to do: let the"):
        Reading().gives(message(1, -1, KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_a_consumer_that_was_closed_gives_nothing_and_may_be_closed_again() -> None:
    reading = Reading()
    reading.consumer.close()
    reading.consumer.close()
    assert (reading.gives(message(0, 0)), reading.client.closed) == ([], 1)

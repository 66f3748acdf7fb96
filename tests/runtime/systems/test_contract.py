"""What every system owes the engines, tried on each."""

from collections.abc import Callable
from threading import Thread

import pytest

from fluvial.dsl.errors import SystemProblem, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.systems import System
from fluvial.runtime.systems.contract import Consumer, RecordBatch, StreamPartition

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]

RECORD: Record = (b"ada", b"/home", 1_700_000_000_000, (("trace", b"1"), ("trace", b"2")))


@pytest.fixture(autouse=True)
def streams(system: System) -> None:
    system.admin().create("clicks", 2)
    system.admin().create("visits", 1)


def commit(system: System, stream: str, partition: int, records: list[Record]) -> None:
    producer = system.producer()
    writing = producer.begin()
    writing.append(stream, partition, records)
    writing.commit()
    producer.close()


def come(consumer: Consumer, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
    """The next batches with records."""
    while True:
        batches = [batch for batch in consumer.poll(60, wanted) if batch.records]
        if batches:
            return batches


def test_streams_are_made_and_listed(system: System) -> None:
    admin = system.admin()
    assert admin.streams().items() >= {"clicks": 2, "visits": 1}.items()
    assert (admin.partitions("clicks"), admin.partitions("nothing")) == (2, None)
    assert (admin.starts("clicks"), admin.ends("clicks")) == ([0, 0], [0, 0])


def test_a_commit_shows_everything_at_once(system: System, read: Read) -> None:
    producer = system.producer()
    writing = producer.begin()
    writing.append("clicks", 0, [RECORD])
    writing.append("clicks", 1, [RECORD])
    writing.append("visits", 0, [RECORD, RECORD])
    writing.commit("group", {"task": b"7"})
    producer.close()
    assert [read(system, *partition) for partition in (("clicks", 0), ("clicks", 1), ("visits", 0))] == [
        [RECORD],
        [RECORD],
        [RECORD, RECORD],
    ]
    assert system.admin().checkpoints("group") == {"task": b"7"}


def test_a_stream_made_again_keeps_its_records(system: System, read: Read) -> None:
    commit(system, "clicks", 0, [RECORD])
    system.admin().create("clicks", 2)
    assert read(system, "clicks") == [RECORD]


def test_no_batch_is_larger_than_was_asked_for(system: System, numbered: Numbered) -> None:
    commit(system, "visits", 0, numbered(25))
    consumer = system.consumer(max_records=10)
    consumer.assign({("visits", 0): 0})
    sizes: list[int] = []
    while sum(sizes) < 25:
        sizes += [len(batch.records) for batch in come(consumer)]
    consumer.close()
    assert max(sizes) <= 10


def test_a_stream_keeps_its_partition_count(system: System) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)'clicks' has 2 partitions, not 3\n.*ask for 2 partitions"):
        system.admin().create("clicks", 3)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "a b", "ä", "x" * 201])
def test_a_name_that_is_no_stream_name_is_refused(system: System, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a stream"):
        system.admin().create(name, 1)


def test_a_stream_has_a_partition(system: System) -> None:
    with pytest.raises(UsageError, match="expected: 1 or more"):
        system.admin().create("empty", 0)


def test_records_come_back_as_they_were(system: System, read: Read) -> None:
    records: list[Record] = [RECORD, (None, None, -1, ()), (b"", b"", 0, (("", b""),))]
    commit(system, "clicks", 0, records)
    assert read(system, "clicks") == records


def test_staged_records_are_invisible(system: System) -> None:
    writing = system.producer().begin()
    writing.append("clicks", 0, [RECORD])
    assert writing.size > 0
    assert system.admin().ends("clicks") == [0, 0]


def test_checkpoints_are_kept_by_group_and_task(system: System) -> None:
    producer = system.producer()
    producer.begin().commit("one", {"a": b"1", "b": b"1"})
    producer.begin().commit("two", {"a": b"2"})
    producer.begin().commit("one", {"b": b"3"})
    assert system.admin().checkpoints("one") == {"a": b"1", "b": b"3"}
    assert system.admin().checkpoints("two") == {"a": b"2"}
    assert system.admin().checkpoints("none") == {}


def test_a_limit_is_known_of_streams_that_have_one_alone(system: System) -> None:
    admin = system.admin()
    assert admin.record_limits([]) == {}
    assert admin.record_limits(["nothing"]) == {}
    assert all(limit.largest > 0 for limit in admin.record_limits(["clicks", "visits"]).values())


def test_appends_keep_their_order(system: System, read: Read, numbered: Numbered) -> None:
    writing = system.producer().begin()
    for start in range(0, 100, 7):
        writing.append("clicks", 0, tuple(numbered(start, min(start + 7, 100))))
    writing.commit()
    assert read(system, "clicks") == numbered(100)


def test_a_partition_that_is_not_wanted_waits(system: System) -> None:
    commit(system, "clicks", 0, [RECORD])
    commit(system, "clicks", 1, [RECORD])
    consumer = system.consumer()
    consumer.assign({("clicks", 0): 0, ("clicks", 1): 0})
    assert [batch.partition for batch in come(consumer, frozenset({("clicks", 1)}))] == [1]
    assert consumer.poll(wanted=frozenset()) == []
    assert [batch.partition for batch in come(consumer)] == [0]
    consumer.close()


def test_assigning_takes_the_place_of_what_was_assigned(system: System) -> None:
    commit(system, "clicks", 0, [RECORD])
    commit(system, "visits", 0, [RECORD])
    consumer = system.consumer()
    consumer.assign({("clicks", 0): 0})
    consumer.assign({("visits", 0): 0})
    assert [batch.stream for batch in come(consumer)] == ["visits"]
    consumer.close()


def test_a_consumer_sees_what_comes_later(system: System, numbered: Numbered) -> None:
    consumer = system.consumer()
    consumer.assign({("visits", 0): 0})
    seen = []
    for number in range(5):
        commit(system, "visits", 0, numbered(number, number + 1))
        seen += [record for batch in come(consumer) for record in batch.records]
    assert seen == numbered(5)
    assert [batch for batch in consumer.poll(timeout=0.001) if batch.records] == []
    consumer.close()


def test_polling_waits_for_a_commit(system: System) -> None:
    consumer = system.consumer()
    consumer.assign({("visits", 0): 0})
    writing = Thread(target=commit, args=(system, "visits", 0, [RECORD]))
    writing.start()
    assert [batch.records for batch in consumer.poll(timeout=60)] == [[RECORD]]
    writing.join()


def test_a_transaction_ends_once(system: System) -> None:
    writing = system.producer().begin()
    writing.commit()
    with pytest.raises(UsageError, match="this transaction is over"):
        writing.commit()
    with pytest.raises(UsageError, match="this transaction is over"):
        writing.append("visits", 0, [RECORD])


def test_a_transaction_of_nothing_writes_nothing(system: System) -> None:
    before = system.admin().ends("visits")
    producer = system.producer()
    writing = producer.begin()
    writing.append("visits", 0, [])
    writing.commit()
    producer.close()
    assert (writing.size, system.admin().ends("visits")) == (0, before)


def test_a_dropped_transaction_leaves_nothing(system: System, read: Read) -> None:
    producer = system.producer()
    producer.begin().append("visits", 0, [RECORD])
    producer.close()
    commit(system, "visits", 0, [RECORD])
    assert read(system, "visits") == [RECORD]


def test_an_unknown_stream_is_refused_with_names_that_are_near(system: System) -> None:
    expected = r"(?s)no stream 'click'\n.*similar name: 'clicks'.*create the stream"
    for action in (
        lambda: system.producer().begin().append("click", 0, []),
        lambda: system.consumer().assign({("click", 0): 0}),
        lambda: system.admin().ends("click"),
        lambda: system.admin().starts("click"),
    ):
        with pytest.raises(SystemProblem, match=expected):
            action()


@pytest.mark.parametrize("partition", [-1, 2])
def test_an_unknown_partition_is_refused(system: System, partition: int) -> None:
    expected = f"(?s)has no partition {partition}\n.*expected: 0 to 1"
    with pytest.raises(SystemProblem, match=expected):
        system.producer().begin().append("clicks", partition, [RECORD])
    with pytest.raises(SystemProblem, match=expected):
        system.consumer().assign({("clicks", partition): 0})

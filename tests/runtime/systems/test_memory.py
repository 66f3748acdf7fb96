"""Streams in memory: what is staged, what is visible, from where it is read, and who holds a claim."""

from collections.abc import Sequence

import pytest

from fluvial.dsl import SystemProblem, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.systems import MemorySystem


@pytest.fixture
def system() -> MemorySystem:
    """A system with the stream `in` of two partitions."""
    system = MemorySystem()
    system.admin().create("in", 2)
    return system


def records(*values: bytes) -> list[Record]:
    return [(None, value, 0, ()) for value in values]


def write(system: MemorySystem, values: Sequence[bytes], partition: int = 0) -> None:
    """Write to one partition of `in`, in one transaction."""
    transaction = system.producer().begin()
    transaction.append("in", partition, records(*values))
    transaction.commit()


def read(system: MemorySystem, offset: int = 0, partition: int = 0) -> list[bytes | None]:
    """What one poll reads of a partition of `in` from an offset on."""
    consumer = system.consumer()
    consumer.assign({("in", partition): offset})
    return [record[1] for batch in consumer.poll() for record in batch.records]


def test_what_is_appended_is_visible_once_it_is_committed(system: MemorySystem) -> None:
    transaction = system.producer().begin()
    transaction.append("in", 0, records(b"a"))
    transaction.append("in", 0, records(b"b"))
    assert (transaction.size, read(system), system.admin().ends("in")) == (2, [], [0, 0])
    transaction.commit()
    assert (read(system), system.admin().ends("in")) == ([b"a", b"b"], [2, 0])


def test_a_transaction_that_is_dropped_leaves_nothing(system: MemorySystem) -> None:
    producer = system.producer()
    producer.begin().append("in", 0, records(b"lost"))
    producer.close()
    write(system, [b"kept"])
    assert read(system) == [b"kept"]


def test_a_transaction_ends_once(system: MemorySystem) -> None:
    transaction = system.producer().begin()
    transaction.commit()
    with pytest.raises(UsageError):
        transaction.append("in", 0, records(b"a"))
    with pytest.raises(UsageError):
        transaction.commit()
    assert transaction.size == 0


def test_a_prepared_transaction_is_published_once_and_by_any_producer(system: MemorySystem) -> None:
    transaction = system.producer().begin()
    transaction.append("in", 1, records(b"a"))
    token = transaction.prepare("group", {"task": b"1"})
    assert (read(system, partition=1), system.admin().checkpoints("group")) == ([], {})
    for _ in range(2):
        system.producer("another").publish(token)
    assert (read(system, partition=1), system.admin().checkpoints("group")) == ([b"a"], {"task": b"1"})


def test_a_token_of_another_system_is_refused(system: MemorySystem) -> None:
    token = MemorySystem().producer().begin().prepare("group", {})
    with pytest.raises(SystemProblem, match="never prepared"):
        system.producer().publish(token)


def test_an_empty_checkpoint_removes_that_of_its_task(system: MemorySystem) -> None:
    producer = system.producer()
    producer.begin().commit("group", {"one": b"1", "two": b"2"})
    producer.begin().commit("group", {"one": b""})
    assert system.admin().checkpoints("group") == {"two": b"2"}
    assert system.admin().checkpoints("other") == {}


def test_a_partition_is_read_from_an_offset_in_batches(system: MemorySystem) -> None:
    write(system, [b"a", b"b", b"c", b"d"])
    consumer = system.consumer(max_records=2)
    consumer.assign({("in", 0): 1})
    batches = [batch for _ in range(3) for batch in consumer.poll()]
    assert [(list(batch.offsets), [record[1] for record in batch.records]) for batch in batches] == [
        ([1, 2], [b"b", b"c"]),
        ([3], [b"d"]),
    ]


def test_only_wanted_partitions_are_read_and_the_others_later(system: MemorySystem) -> None:
    write(system, [b"a"], 0)
    write(system, [b"b"], 1)
    consumer = system.consumer()
    consumer.assign({("in", 0): 0, ("in", 1): 0})
    assert [batch.partition for batch in consumer.poll(wanted=frozenset({("in", 1)}))] == [1]
    assert [batch.partition for batch in consumer.poll()] == [0]


def test_a_closed_consumer_reads_nothing(system: MemorySystem) -> None:
    write(system, [b"a"])
    consumer = system.consumer()
    consumer.assign({("in", 0): 0})
    consumer.close()
    assert consumer.poll() == []


@pytest.mark.parametrize("partition", [("none", 0), ("in", 2), ("in", -1)])
def test_a_partition_that_does_not_exist_is_neither_written_nor_read(
    system: MemorySystem, partition: tuple[str, int]
) -> None:
    with pytest.raises(SystemProblem):
        system.producer().begin().append(*partition, records(b"a"))
    with pytest.raises(SystemProblem):
        system.consumer().assign({partition: 0})


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_of_the_partition_is_refused(system: MemorySystem, offset: int) -> None:
    write(system, [b"a"])
    with pytest.raises(SystemProblem):
        system.consumer().assign({("in", 0): offset})


def test_a_stream_is_made_once_with_one_partition_count(system: MemorySystem) -> None:
    write(system, [b"a"])
    system.admin().create("in", 2)
    with pytest.raises(SystemProblem):
        system.admin().create("in", 3)
    assert (system.admin().streams(), system.admin().ends("in")) == ({"in": 2}, [1, 0])
    assert (system.admin().partitions("in"), system.admin().partitions("none")) == (2, None)


def test_a_place_is_held_by_one_until_it_is_released(system: MemorySystem) -> None:
    with system.claim("p", "0"), system.claim("p", "1"), pytest.raises(SystemProblem), system.claim("p", "0"):
        pass
    with system.claim("p", "0"):
        pass


def test_systems_in_memory_share_nothing(system: MemorySystem) -> None:
    other = MemorySystem()
    assert other.admin().streams() == {}
    assert other.producer().identity != system.producer().identity

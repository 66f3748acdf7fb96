"""What systems owe the engines that keep prepared transactions, and number records without gaps."""

from collections.abc import Callable

import pytest

from fluvial.dsl.errors import SystemProblem, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.systems.contract import PublishingSystem

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]

RECORD: Record = (b"ada", b"/home", 1_700_000_000_000, (("trace", b"1"), ("trace", b"2")))


@pytest.fixture
def system(publishing: PublishingSystem) -> PublishingSystem:
    """A system with the streams "clicks" (2 partitions) and "visits" (1)."""
    publishing.admin().create("clicks", 2)
    publishing.admin().create("visits", 1)
    return publishing


def commit(system: PublishingSystem, stream: str, partition: int, records: list[Record]) -> None:
    writing = system.producer().begin()
    writing.append(stream, partition, records)
    writing.commit()


def test_streams_are_listed_and_measured(system: PublishingSystem) -> None:
    admin = system.admin()
    commit(system, "clicks", 1, [RECORD])
    assert admin.streams() == {"clicks": 2, "visits": 1}
    assert (admin.partitions("clicks"), admin.partitions("nothing")) == (2, None)
    assert (admin.starts("clicks"), admin.ends("clicks")) == ([0, 0], [0, 1])


@pytest.mark.parametrize("offset", [0, 1, 999, 1000, 4321, 4999, 5000])
def test_reading_starts_at_any_offset(system: PublishingSystem, read: Read, numbered: Numbered, offset: int) -> None:
    commit(system, "clicks", 0, numbered(2500))
    commit(system, "clicks", 0, numbered(2500, 5000))
    assert read(system, "clicks", offset=offset) == numbered(offset, 5000)


def test_a_prepared_transaction_is_invisible_until_it_is_published(system: PublishingSystem, read: Read) -> None:
    producer = system.producer()
    writing = producer.begin()
    writing.append("clicks", 0, [RECORD])
    token = writing.prepare("group", {"task": b"1"})
    assert (system.admin().ends("clicks"), system.admin().checkpoints("group")) == ([0, 0], {})
    producer.publish(token)
    assert (read(system, "clicks"), system.admin().checkpoints("group")) == ([RECORD], {"task": b"1"})


def test_a_token_takes_effect_once(system: PublishingSystem) -> None:
    producer = system.producer()
    writing = producer.begin()
    writing.append("clicks", 0, [RECORD])
    token = writing.prepare("group", {"task": b"1"})
    producer.publish(token)
    producer.begin().commit("group", {"task": b"2"})
    producer.publish(token)
    assert (system.admin().ends("clicks"), system.admin().checkpoints("group")) == ([1, 0], {"task": b"2"})


def test_a_token_without_records_takes_effect_once(system: PublishingSystem) -> None:
    producer = system.producer()
    token = producer.begin().prepare("group", {"task": b"1"})
    producer.publish(token)
    producer.begin().commit("group", {"task": b"2"})
    system.producer().publish(token)
    assert system.admin().checkpoints("group") == {"task": b"2"}


def test_tokens_are_published_in_any_order_by_anybody(system: PublishingSystem, read: Read, numbered: Numbered) -> None:
    producer, tokens = system.producer(), []
    for number in range(3):
        writing = producer.begin()
        writing.append("visits", 0, numbered(number, number + 1))
        tokens.append(writing.prepare("", {}))
    producer.close()
    for number in (2, 0, 2, 1, 0):
        system.producer().publish(tokens[number])
    assert read(system, "visits") == numbered(2, 3) + numbered(0, 2)


def test_an_unknown_stream_is_refused_with_all_names_where_none_is_near(system: PublishingSystem) -> None:
    with pytest.raises(SystemProblem, match=r"streams that exist: 'clicks', 'visits'"):
        system.admin().ends("zzz")


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_the_partition_is_refused(system: PublishingSystem, offset: int) -> None:
    commit(system, "visits", 0, [RECORD])
    with pytest.raises(SystemProblem, match=f"(?s)offset {offset} lies outside partition 0 of .*expected: 0 to 1"):
        system.consumer().assign({("visits", 0): offset})


def test_bytes_that_are_no_token_are_refused(system: PublishingSystem) -> None:
    for token in (b"", b"something", b"x" * 100):
        with pytest.raises(SystemProblem, match="the token names no transaction prepared here"):
            system.producer().publish(token)


def test_a_pipeline_is_claimed_by_one_run_at_a_time(system: PublishingSystem) -> None:
    for _ in range(2):
        with system.claim("visits"), system.claim("visits", "1"), system.claim("visitors"):
            refused = pytest.raises(SystemProblem, match=r"'visits' \(container 0\) is running on .* process")
            with refused, system.claim("visits"):
                pass


def test_batches_are_bounded(system: PublishingSystem, numbered: Numbered) -> None:
    commit(system, "visits", 0, numbered(25))
    consumer = system.consumer(max_records=10)
    consumer.assign({("visits", 0): 0})
    assert [len(batch.records) for _ in range(4) for batch in consumer.poll()] == [10, 10, 5]


def test_a_transaction_is_not_prepared_twice(system: PublishingSystem) -> None:
    writing = system.producer().begin()
    writing.prepare("", {})
    for action in (lambda: writing.prepare("", {}), writing.commit):
        with pytest.raises(UsageError, match="this transaction is over"):
            action()

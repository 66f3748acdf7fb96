"""Writers of journals: when entries are durable, and where an error shows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engines.sending import ProducingSystem
from fluvial.dsl import SystemProblem
from fluvial.runtime.local.journals.writers import (
    GATHER_SECONDS,
    IDLE_SECONDS,
    JournalWriter,
    ProducedJournal,
    PublishedJournal,
)
from fluvial.runtime.systems import MemorySystem

PARTITION = ("p-ask-journal", 1)


def made(system: Any, clock: Callable[[], float] = lambda: 0.0) -> JournalWriter:
    system.admin().create(PARTITION[0], 2)
    if isinstance(system, ProducingSystem):
        return ProducedJournal(system.record_producer(), lambda: 7, clock)
    return PublishedJournal(system.producer(), system.admin(), lambda: 7, clock)


@pytest.mark.parametrize("make", [MemorySystem, ProducingSystem])
def test_entries_are_durable_after_a_flush(make: Any) -> None:
    async def main() -> None:
        system = make()
        writer = made(system)
        writer.flush()
        assert writer.end(PARTITION) is None
        writer.write(PARTITION, b"1", b"a")
        writer.write(PARTITION, b"2", b"b")
        writer.flush()
        assert (writer.end(PARTITION), system.admin().ends(PARTITION[0])) == (2, [0, 2])
        writer.flush()
        writer.close()
        consumer = system.consumer()
        consumer.assign({PARTITION: 0})
        assert consumer.poll()[0].records == [(b"1", b"a", 7, ()), (b"2", b"b", 7, ())]

    asyncio.run(main())


@pytest.mark.parametrize("make", [MemorySystem, ProducingSystem])
def test_the_end_is_known_of_what_gets_entries_from_other_containers_alone(make: Any) -> None:
    async def main() -> None:
        system, now = make(), 0.0
        idle, other = made(system, lambda: now), made(system)

        def learnt() -> int | None:
            other.write(PARTITION, b"1", b"a")
            other.flush()
            idle.flush()
            return idle.end(PARTITION)

        assert learnt() is None  # nobody has wanted to know it
        now += IDLE_SECONDS
        assert learnt() == 2
        now += IDLE_SECONDS / 2
        assert learnt() == 2
        now += IDLE_SECONDS / 2
        assert learnt() == 4
        idle.close()
        other.close()

    asyncio.run(main())


class Broken:
    """A producer that cannot write."""

    def begin(self) -> Any:
        raise SystemProblem("the disk is full")

    def send(self, *_: Any) -> None:
        raise SystemProblem("the disk is full")

    ends = send

    def close(self) -> None:
        pass


def test_what_cannot_be_sent_fails_the_next_commit_and_not_a_call() -> None:
    broken: Any = Broken()
    writer = ProducedJournal(broken)
    writer.write(PARTITION, b"1", b"a")
    with pytest.raises(SystemProblem):
        writer.flush()
    writer.close()


class Interrupted:
    """A producer during whose first `send` another thread does something."""

    def __init__(self) -> None:
        self.sent = self.flushed = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def send(self, *_: Any) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.sent += 1

    def flush(self) -> None:
        self.flushed = self.sent

    def ends(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.sent)


def test_what_is_sent_while_another_thread_flushes_is_waited_for_by_the_next_commit() -> None:
    producer: Any = Interrupted()
    writer = ProducedJournal(producer)
    producer.meanwhile = writer.flush
    writer.write(PARTITION, b"1", b"a")
    assert producer.flushed == 0
    writer.flush()
    assert (producer.flushed, writer.end(PARTITION)) == (1, 1)


def test_what_was_sent_before_the_end_of_a_run_is_durable() -> None:
    system = ProducingSystem()
    writer = made(system)
    writer.write(PARTITION, b"1", b"a")
    writer.close()
    assert system.admin().ends(PARTITION[0]) == [0, 1]


def test_entries_are_published_a_moment_later_though_no_commit_comes() -> None:
    async def main() -> None:
        system = MemorySystem()
        writer = made(system)
        writer.write(PARTITION, b"1", b"a")
        assert system.admin().ends(PARTITION[0]) == [0, 0]
        while system.admin().ends(PARTITION[0]) == [0, 0]:
            await asyncio.sleep(GATHER_SECONDS)
        writer.write(PARTITION, b"2", b"b")
        writer.close()
        assert system.admin().ends(PARTITION[0]) == [0, 2]

    asyncio.run(main())


def test_what_is_dropped_is_not_published() -> None:
    async def main() -> None:
        system = MemorySystem()
        writer = made(system)
        assert isinstance(writer, PublishedJournal)
        writer.write(PARTITION, b"1", b"a")
        writer.drop()
        await asyncio.sleep(2 * GATHER_SECONDS)
        assert system.admin().ends(PARTITION[0]) == [0, 0]

    asyncio.run(main())


def test_what_cannot_be_published_fails_the_next_commit() -> None:
    async def main() -> None:
        broken: Any = Broken()
        writer = PublishedJournal(broken, MemorySystem().admin())
        writer.write(PARTITION, b"1", b"a")
        writer._due()
        with pytest.raises(SystemProblem):
            writer.flush()
        writer.close()

    asyncio.run(main())

"""Streams are read up to an end that was set before, or for ever."""

from collections.abc import Sequence
from itertools import islice

import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.reads import follow, read_to_ends


def numbered(*bounds: int) -> list[Record]:
    return [(None, b"%d" % number, number, ()) for number in range(*bounds)]


def append(system: MemorySystem, partition: int, records: Sequence[Record]) -> None:
    transaction = system.producer().begin()
    transaction.append("numbers", partition, records)
    transaction.commit()


@pytest.fixture
def system() -> MemorySystem:
    """The stream "numbers": 0 to 9 in its first partition, nothing in the second, 20 to 24 in the third."""
    made = MemorySystem()
    made.admin().create("numbers", 3)
    append(made, 0, numbered(10))
    append(made, 2, numbered(20, 25))
    return made


def test_partitions_are_read_one_after_the_other(system: MemorySystem) -> None:
    found = [
        (batch.partition, record[2])
        for batch in read_to_ends(system, "numbers", [7, 0, 3], [10, 0, 5])
        for record in batch.records
    ]
    assert found == [(0, 7), (0, 8), (0, 9), (2, 23), (2, 24)]


def test_nothing_behind_the_end_is_read(system: MemorySystem) -> None:
    (batch,) = read_to_ends(system, "numbers", [0, 0, 0], [4, 0, 0])
    assert (list(batch.offsets), len(batch.records)) == ([0, 1, 2, 3], 4)


def test_following_goes_on_with_what_comes(system: MemorySystem) -> None:
    batches = follow(system, "numbers", [10, 0, 4])
    assert next(batches).records == numbered(24, 25)
    append(system, 1, numbered(30, 32))
    assert [batch.records for batch in islice(batches, 1)] == [numbered(30, 32)]

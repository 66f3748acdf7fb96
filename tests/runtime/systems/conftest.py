"""Each system under one fixture, and what tests of systems read with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem, MemorySystem, System

Read = Callable[..., list[Record]]


@pytest.fixture(params=["log", "memory"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    """An empty system of each kind."""
    return LogSystem(tmp_path, fsync=False) if request.param == "log" else MemorySystem()


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    """An empty log with the streams "clicks" (2 partitions) and "visits" (1)."""
    system = LogSystem(tmp_path, fsync=False)
    admin = system.admin()
    admin.create("clicks", 2)
    admin.create("visits", 1)
    return system


@pytest.fixture
def read() -> Read:
    """All records of a partition from an offset on, read by a new consumer."""

    def read_all(system: System, stream: str, partition: int = 0, offset: int = 0) -> list[Record]:
        consumer = system.consumer()
        consumer.assign({(stream, partition): offset})
        records: list[Record] = []
        while batches := consumer.poll():
            for batch in batches:
                assert list(batch.offsets) == list(range(offset, offset + len(batch.records)))
                offset = batch.next_offset
                records += batch.records
        consumer.close()
        return records

    return read_all


@pytest.fixture
def numbered() -> Callable[..., list[Record]]:
    """Records whose values are the numbers of a range."""

    def records(*bounds: int) -> list[Record]:
        return [(None, b"%d" % number, number, ()) for number in range(*bounds)]

    return records

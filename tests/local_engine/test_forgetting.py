"""What fires, or is forgotten, as a whole: nobody holds all of it at once."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents
from fluvial.dsl import KeyedStream, Pipeline, count, hopping, tumbling
from fluvial.dsl.message import Record
from fluvial.dsl.windows.assigners import Assigner
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.kernel import firing_pauses, output_buffer
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.local.commit import changelog
from fluvial.runtime.local.commit.changelog import change_records
from fluvial.runtime.state import MemoryStore, RocksStore
from fluvial.runtime.state import rocksdb as rocks
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.memory import MemoryProducer, MemoryTransaction

ENTRIES: list[Change] = [
    (prefix, b"%d" % number, b"v") for prefix in (b"a\0t\0", b"a\0u\0", b"b\0t\0") for number in range(9)
]
WHOLE: list[Change] = [
    (b"a\0t\0", b"2", b"old"),
    (b"a\0t\0", None, None),
    (b"a\0t\0", b"1", b"new"),
    (b"b\0t\0", b"2", None),
]
"""What was changed before it was forgotten is forgotten too; what comes behind stays."""


def rocks_store(folder: Path) -> RocksStore:
    return RocksStore(folder / "store")


def memory_store(_: Path) -> MemoryStore:
    return MemoryStore()


@pytest.mark.parametrize("make", [rocks_store, memory_store])
@pytest.mark.parametrize("few", [3, 9, 100])
def test_a_store_forgets_all_under_a_prefix(
    make: Callable[[Path], RocksStore | MemoryStore], few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocks, "_FEW", few)
    store = make(tmp_path)
    store.write(ENTRIES)
    store.write([(b"a\0t\0", b"x", b"of this very write"), *WHOLE])
    assert dict(store.scan(b"a\0t\0")) == {b"1": b"new"}
    assert len(list(store.scan(b"a\0u\0"))) == 9
    assert len(list(store.scan(b"b\0t\0"))) == 8


@pytest.mark.parametrize("piece", [1, 4, 1000])
def test_a_changelog_has_a_deletion_for_each_key(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "CHUNK", piece)
    store = MemoryStore()
    store.write(ENTRIES)
    pieces = list(change_records(WHOLE, store, 7))
    assert all(len(records) <= piece for _, records in pieces)
    found = {name: [one for operator, made in pieces for one in made if operator == name] for name in "ab"}
    deleted = [(b"t\0%d" % number, None, 7, ()) for number in range(9)]
    assert found["a"] == [(b"t\x002", b"old", 7, ()), *deleted, (b"t\x001", b"new", 7, ())]
    assert found["b"] == [(b"t\x002", None, 7, ())]


def counted(by: Assigner, late: int, accumulate: bool) -> Pipeline:
    pipeline = Pipeline("counted")
    source: KeyedStream[str, str] = pipeline.stream("in", key=str, value=str, timestamp=int)
    lateness = timedelta(milliseconds=late)
    source.window(by, count(), accumulate=accumulate, lateness=lateness, id="w").send_to("out")
    return pipeline


class Noting(MemorySystem):
    """Notes how many outputs are handed to it at once, at most."""

    most = 0

    def producer(self, name: str = "") -> MemoryProducer:
        del name
        return _NotingProducer(self)


class _NotingProducer(MemoryProducer):
    def __init__(self, system: Noting) -> None:
        super().__init__(system._memory)
        self._system = system

    def begin(self) -> MemoryTransaction:
        return _NotingTransaction(self._system)


class _NotingTransaction(MemoryTransaction):
    def __init__(self, system: Noting) -> None:
        super().__init__(system._memory)
        self._system = system

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        if stream == "out":
            self._system.most = max(self._system.most, len(records))
        super().append(stream, partition, records)


def result(pipeline: Pipeline) -> tuple[list[Any], int]:
    """The outputs, and how many were handed over at once, at most."""
    system = Noting()
    system.admin().create("in", 1)
    transaction = system.producer().begin()
    records = [(b"%03d" % (number % 90), b"%d" % (number // 100), 0, ()) for number in range(400)]
    transaction.append("in", 0, [*records, (b"000", b"60", 0, ())])
    transaction.commit()
    run(pipeline, system=system, until="end", settings=Settings(cached_entries=20))
    return contents(system, "out"), system.most


@pytest.mark.parametrize("late", [0, 5])
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize(
    "by", [tumbling(timedelta(milliseconds=3)), hopping(timedelta(milliseconds=3), timedelta(milliseconds=1))]
)
def test_a_window_fires_in_pieces(by: Assigner, late: int, accumulate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, most = result(counted(by, late, accumulate))
    assert most >= 60
    monkeypatch.setattr(firing_pauses, "PIECE", 3)
    monkeypatch.setattr(output_buffer, "HAND_OVER_COUNT", 3)
    in_pieces, most = result(counted(by, late, accumulate))
    assert in_pieces == wanted
    assert 3 <= most < 9

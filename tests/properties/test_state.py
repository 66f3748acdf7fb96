"""Keyed and timed state against dictionaries: changes, commits, eviction, restarts and what is taken back."""

import copy
import struct
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engines.spark_in_process import Blobs
from fluvial.dsl.message import Record
from fluvial.runtime.kernel import chunked_values
from fluvial.runtime.kernel.chunked_values import MARK
from fluvial.runtime.kernel.state_cache import KeyedState, Size, TimeBucketedState, evict
from fluvial.runtime.local.commit.changelog import change_records
from fluvial.runtime.spark.worker import page_index
from fluvial.runtime.spark.worker.state_pages import StatePages
from fluvial.runtime.state import MemoryStore
from generators.how_many import examples

KEYS = st.sampled_from([b"", b"a", b"b", b"\xff"])
SIZES = st.sampled_from([0, 128, 200, 500, 1 << 30])
TIMES = st.sampled_from([-(2**40), -1, 0, 7, 2**41])


LONG = (1, 150)
"""Numbers that are added together: values are small, and large."""


class StateMachine(RuleBasedStateMachine):
    """Values are lists that are changed in place, as accumulators may be. Large ones are stored in chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Any = self.make_store()
        self.changelog: list[Record] = []
        self.keyed_model: dict[bytes, list[int]] = {}
        self.timed_model: dict[int, dict[bytes, list[int]]] = {}
        self.kept: Any = ({}, {})
        self.load(complete=True)

    def make_store(self) -> Any:
        """What is below."""
        return MemoryStore()

    def entries(self) -> list[tuple[bytes, bytes]]:
        """The keys, behind the operator's id, and the values below."""
        return list(self.store.scan(b"op\0"))

    def load(self, complete: bool = False) -> None:
        self.keyed = KeyedState("op", self.store, list[int], list, complete)
        self.timed = TimeBucketedState("op", self.store, list[int], list, complete, lambda _: None)

    @rule(key=KEYS, number=st.integers(0, 9))
    def add(self, key: bytes, number: int) -> None:
        fresh = self.keyed.cache.fresh
        value = fresh[key]
        value += [number] * LONG[number % 2]
        fresh[key] = value
        self.keyed_model.setdefault(key, []).extend([number] * LONG[number % 2])

    @rule(key=KEYS, at=st.integers(0, 400))
    def change_within(self, key: bytes, at: int) -> None:
        """As the number of items of a session does, behind one that is kept."""
        fresh = self.keyed.cache.fresh
        value = fresh[key]
        if at < len(value):
            value[at] = self.keyed_model[key][at] = 9 - value[at]
            fresh[key] = value

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.keyed.delete(key)
        self.keyed_model.pop(key, None)

    @rule(time=TIMES, key=KEYS, number=st.integers(0, 9))
    def add_at(self, time: int, key: bytes, number: int) -> None:
        fresh = self.timed.fresh(time)
        value = fresh[key]
        value.append(number)
        fresh[key] = value
        self.timed_model.setdefault(time, {}).setdefault(key, []).append(number)

    @rule(time=TIMES, key=KEYS)
    def take_back(self, time: int, key: bytes) -> None:
        undo = [self.keyed.cache.undo(key), self.timed.undo(time, key)]
        before = copy.deepcopy((self.keyed_model, self.timed_model))
        self.add(key, 1)
        self.add_at(time, key, 1)
        for one in undo:
            one()
        self.keyed_model, self.timed_model = before

    @rule()
    def drop_first(self) -> None:
        time = self.timed.first()
        assert time == min(self.timed_model, default=None)
        if time is not None:
            self.timed.drop(time)
            del self.timed_model[time]

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        assert self.keyed.cache.fresh[key] == self.keyed_model.get(key, [])

    @rule(time=TIMES, key=KEYS)
    def get_at(self, time: int, key: bytes) -> None:
        if time in self.timed.at:
            assert self.timed.at[time].fresh[key] == self.timed_model[time].get(key, [])

    @rule(key=KEYS, number=st.integers(0, 9))
    def put(self, key: bytes, number: int) -> None:
        self.keyed.cache.fresh[key] = [number]
        self.keyed_model[key] = [number]

    @rule(entries=st.integers(0, 6), size=SIZES)
    def evict(self, entries: int, size: int) -> None:
        caches = [*self.keyed.caches(), *self.timed.caches()]
        evict(caches, Size(entries, size))
        assert sum(cache.held.entries for cache in caches) <= entries
        assert sum(cache.held.bytes for cache in caches) <= size
        assert sum(cache.held.bytes for cache in caches) >= 128 * sum(cache.held.entries for cache in caches)

    @rule(entries=st.integers(0, 6), size=SIZES)
    def commit(self, entries: int, size: int) -> None:
        changes = [*self.keyed.changes(), *self.timed.changes()]
        for operator, records in change_records(changes, self.store, 0):
            assert operator == "op"
            self.changelog.extend(records)
        self.store.write(changes)
        self.keyed.mark_committed()
        self.timed.mark_committed()
        self.evict(entries, size)
        self.kept = copy.deepcopy((self.keyed_model, self.timed_model))

    @rule()
    def restart(self) -> None:
        self.keyed_model, self.timed_model = copy.deepcopy(self.kept)
        self.load()

    @invariant()
    def holds_what_the_dictionaries_hold(self) -> None:
        assert dict(self.keyed.cache.items()) == self.keyed_model
        assert {time: dict(cache.items()) for time, cache in self.timed.at.items()} == self.timed_model
        assert list(self.keyed.cache.items()) == sorted(self.keyed_model.items())

    @invariant()
    def no_entry_is_large_and_no_chunk_is_left_over(self) -> None:
        entries, chunks = [], 0
        full, last, head = chunked_values.CHUNK, chunked_values.LAST_CHUNK, chunked_values.HEAD
        for key, value in self.entries():
            assert len(value) <= full
            if key.startswith(b"\1"):
                chunks += 1
            elif value.startswith(MARK):
                size, hot = struct.unpack_from(">QQ", value, len(MARK))
                assert hot == 0 or head <= hot <= size - full
                entries.append((size - head, full // last - 1 if hot else 0))
        assert chunks == sum(size // full + -(-(size % full) // last) + hot for size, hot in entries)

    @invariant()
    def the_changelog_gives_the_store(self) -> None:
        replayed = MemoryStore()
        replayed.write((b"op\0", key or b"", value) for key, value, _, _ in self.changelog)
        assert list(replayed.scan(b"op\0")) == list(self.store.scan(b"op\0"))


class PagesMachine(StateMachine):
    """The same over pages, as on Spark, with few entries each."""

    def __init__(self) -> None:
        self.blobs = Blobs()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(page_index, "FULL", 2)
        self.patch.setattr(page_index, "FULL_BYTES", 100)
        super().__init__()

    def teardown(self) -> None:
        self.patch.undo()

    def make_store(self) -> Any:
        return StatePages(self.blobs)

    def load(self, complete: bool = False) -> None:
        self.store = self.make_store()
        super().load(complete)

    def entries(self) -> list[tuple[bytes, bytes]]:
        held = StatePages(self.blobs)
        return [(prefix[3:] + key, value) for prefix in held.index.prefixes for key, value in held.scan(prefix)]

    @invariant()
    def the_changelog_gives_the_store(self) -> None:
        """On Spark there is none."""


TestState = StateMachine.TestCase
TestState.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)

TestStateInPages = PagesMachine.TestCase
TestStateInPages.settings = TestState.settings

"""Layers of state: a value is decoded once, encoded once a commit, and read below only where it may be.

What state holds over changes, commits and restarts, `tests/properties/test_state.py` tells.
"""

import gc
from collections.abc import Iterator
from random import Random
from typing import Any
from weakref import ref

import pytest

from engines.eviction import mark_committed
from fluvial.runtime.kernel.state_cache import KeyedState, Size, TimeBucketedState, WriteBackCache, evict
from fluvial.runtime.kernel.state_codec import MsgpackCodec
from fluvial.runtime.state import MemoryStore


class Counted(MemoryStore):
    """Notes what is asked of it."""

    def __init__(self, **entries: bytes) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.write((b"p", key.encode(), value) for key, value in entries.items())

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        self.asked.append(key)
        return super().get(prefix, key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.asked.append("scan")
        return super().scan(prefix)


def cache(backend: MemoryStore, complete: bool = False) -> WriteBackCache:
    return WriteBackCache(b"p", backend, MsgpackCodec(list[int]), list, complete)


def commit(one: WriteBackCache, backend: MemoryStore, room: int) -> list[bytes]:
    """Write the changes; the keys that changed."""
    changes = list(one.changes())
    backend.write(changes)
    one.mark_committed()
    evict([one], Size(room, 1 << 60))
    return sorted(key for _, key, _ in changes if key is not None)


def test_a_value_is_read_once_and_only_what_was_set_is_written() -> None:
    backend = Counted(a=b"\x91\x01", b=b"\x91\x02")
    state = cache(backend)
    state.fresh[b"a"] = [*state.fresh[b"a"], 5]
    assert (state.fresh[b"a"], state.fresh[b"b"]) == ([1, 5], [2])
    assert commit(state, backend, room=10) == [b"a"]
    assert state.fresh[b"a"] == [1, 5]
    assert backend.asked == [b"a", b"b"]
    assert backend.get(b"p", b"a") == b"\x92\x01\x05"


def test_a_layer_that_is_complete_reads_nothing_below() -> None:
    backend = Counted()
    state = cache(backend, complete=True)
    for room in (5, 5):
        state.fresh[b"a"] = [*state.fresh[b"a"], room]
        commit(state, backend, room)
        assert (state.fresh[b"a"], state.fresh[b"b"]) == (dict(state.items())[b"a"], [])
    assert backend.asked == []


@pytest.mark.parametrize("room", [3, 2, 0])
def test_more_than_there_is_room_for_is_kept_below_alone(room: int) -> None:
    backend = Counted()
    state = cache(backend, complete=True)
    for key in (b"a", b"b", b"c"):
        state.fresh[key] = [1]
    commit(state, backend, room)
    assert len(state.clean) == room
    assert dict(state.items()) == {b"a": [1], b"b": [1], b"c": [1]}
    assert backend.asked == ([] if room == 3 else ["scan"])


def test_a_key_that_changes_again_counts_once() -> None:
    backend = Counted()
    state = cache(backend, complete=True)
    for _ in range(3):
        for number in range(10):
            state.fresh[b"%d" % number] = [number]
        commit(state, backend, room=10)
    assert len(state.clean) == 10
    assert state.complete


def test_what_was_used_last_stays_in_memory() -> None:
    backend = Counted()
    state = cache(backend, complete=True)
    for number in range(10):
        state.fresh[b"%d" % number] = [number]
    commit(state, backend, room=10)
    assert state.fresh[b"0"] == [0]
    state.fresh[b"1"] = [*state.fresh[b"1"], 1]
    state.fresh[b"new"] = [1]
    commit(state, backend, room=3)
    assert {*state.clean} == {b"0", b"1", b"new"}


def test_what_is_looked_up_stays_in_memory() -> None:
    backend = Counted(a=b"\x91\x01")
    state = cache(backend)
    for _ in range(3):
        assert state.fresh[b"a"] == [1]
    assert backend.asked == [b"a"]
    assert list(state.changes()) == []


def test_little_more_than_there_is_room_for_costs_little_reading() -> None:
    backend = Counted()
    state = cache(backend, complete=True)
    keys = [b"%d" % number for number in range(110)]
    for key in keys:
        state.fresh[key] = [1]
    commit(state, backend, room=100)
    chosen = Random(1)
    for _ in range(20):
        for key in chosen.choices(keys, k=50):
            state.fresh[key] = [*state.fresh[key], 1][:5]
        commit(state, backend, room=100)
    assert len(backend.asked) < 150  # of 1,000: one key in eleven is not in memory


@pytest.mark.parametrize("read", [False, True])
def test_large_values_are_kept_in_memory_up_to_a_number_of_bytes(read: bool) -> None:
    backend = Counted()
    state = cache(backend, complete=not read)
    for number in range(10):
        value = [300] * 1000  # three bytes each
        backend.write([(b"p", b"%d" % number, MsgpackCodec(list[int]).encode(value))])
        if read:
            assert state.fresh[b"%d" % number] == value
        else:
            state.fresh[b"%d" % number] = value
    backend.write(state.changes())
    state.mark_committed()
    assert 30_000 < state.held.bytes < 33_000
    evict([state], Size(1000, 16_000))
    assert [*state.clean] == [b"6", b"7", b"8", b"9"] or len(state.clean) == 5
    assert state.held.bytes <= 16_000
    for number in range(10):
        state.delete(b"%d" % number)
    assert state.held == Size(0, 0)


def test_all_layers_share_the_room() -> None:
    backend = MemoryStore()
    caches = [WriteBackCache(b"%d" % number, backend, MsgpackCodec(int), int, complete=True) for number in range(3)]
    for one, size in zip(caches, (100, 10, 50), strict=True):
        for number in range(size):
            one.fresh[b"%d" % number] = number
        backend.write(one.changes())
        one.mark_committed()
    evict(caches, Size(80, 1 << 60))
    assert [len(one.clean) for one in caches] == [50, 5, 25]


def test_a_change_of_what_is_read_from_below_is_taken_back() -> None:
    state = cache(Counted(a=b"\x91\x01"))
    take_back = state.undo(b"a")
    state.fresh[b"a"].append(2)  # and then it fails
    take_back()
    assert state.fresh[b"a"] == [1]


def test_what_was_deleted_is_not_found_below_before_the_commit_or_after() -> None:
    backend = Counted(a=b"\x91\x01", b=b"\x91\x02")
    state = cache(backend)
    state.delete(b"a")
    assert (state.fresh[b"a"], dict(state.items())) == ([], {b"b": [2]})
    assert commit(state, backend, room=10) == [b"a"]
    assert (state.fresh[b"a"], list(backend.scan(b"p"))) == ([], [(b"b", b"\x91\x02")])


def test_a_deletion_that_is_taken_back_leaves_the_value_below() -> None:
    backend = MemoryStore()
    backend.write([(b"w\0k", b"key", b"\x07")])
    state = KeyedState("w", backend, int, int, complete=False)
    take_back = state.cache.undo(b"key")
    state.delete(b"key")
    take_back()
    assert state.cache.fresh[b"key"] == 7
    assert list(state.changes()) == []


def test_what_was_deleted_and_set_again_stays() -> None:
    backend = Counted(a=b"\x91\x01")
    state = cache(backend)
    state.delete(b"a")
    assert commit(state, backend, room=10) == [b"a"]
    state.fresh[b"a"] = [2]
    assert commit(state, backend, room=10) == [b"a"]
    assert commit(state, backend, room=10) == []
    assert dict(cache(backend).items()) == {b"a": [2]}


def test_a_change_is_taken_back_though_the_value_itself_was_changed() -> None:
    backend = Counted(a=b"\x91\x01")
    state = cache(backend)
    state.fresh[b"a"] = state.fresh[b"a"]
    take_back = state.undo(b"a")
    state.fresh[b"a"].append(2)
    take_back()
    assert state.fresh[b"a"] == [1]


def test_times_below_zero_come_before_those_above() -> None:
    backend = MemoryStore()
    written = timed(backend, [])
    for time in (5, -5, 2**62, -(2**62)):
        written.fresh(time)[b"k"] = [time]
    backend.write(written.changes())
    heard: list[int] = []
    assert timed(backend, heard).first() == heard[0] == -(2**62)
    assert heard == [-(2**62), -5, 5, 2**62]


def test_a_time_used_again_after_it_was_dropped_holds_nothing() -> None:
    backend = MemoryStore()
    heard: list[int] = []
    state = timed(backend, heard)
    state.fresh(5)[b"k"] = [1]
    backend.write(state.changes())
    mark_committed(state, 0)
    state.drop(5)
    assert state.fresh(5)[b"k"] == []
    state.fresh(5)[b"other"] = [2]
    backend.write(state.changes())
    assert heard == [5, 5]
    assert dict(timed(backend, []).at[5].items()) == {b"other": [2]}


def test_operators_do_not_see_each_other_s_state() -> None:
    backend = MemoryStore()
    names = ("a", "ab", "a-b")
    for number, name in enumerate(names):
        one = KeyedState(name, backend, int, int, complete=True)
        one.cache.fresh[b"k"] = number
        one.cache.fresh[b"bk"] = number
        backend.write([*one.changes()])
    found = [dict(KeyedState(name, backend, int, int, complete=False).cache.items()) for name in names]
    assert found == [{b"k": number, b"bk": number} for number in range(3)]


def timed(backend: MemoryStore, heard: list[int]) -> TimeBucketedState:
    return TimeBucketedState("op", backend, list[int], list, complete=False, on_new=heard.append)


class Watched(list[int]):
    """A value that can be seen to be gone."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_what_a_time_held_is_gone_with_it(commits: int) -> None:
    # Without the garbage collector: over hours its last round comes too seldom.
    state = TimeBucketedState("op", MemoryStore(), list[int], list, complete=False, on_new=lambda _: None)
    state.fresh(5)[b"k"] = value = Watched()
    seen = ref(value)
    del value
    for _ in range(commits):
        mark_committed(state, 10)
    gc.disable()
    try:
        state.drop(5)
        assert seen() is None
    finally:
        gc.enable()


class Snapshots(MemoryStore):
    """A store whose scans show what was there when they began, as those of RocksDB do."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([*super().scan(prefix)])


def test_what_was_deleted_before_a_walk_does_not_come_back_with_a_commit_in_the_middle() -> None:
    store = Snapshots()
    state = KeyedState("op", store, int, int, True)
    state.cache.fresh.update({b"a": 1, b"b": 2, b"c": 3})
    store.write([*state.changes()])
    mark_committed(state, 0)
    state.delete(b"b")
    walk = state.cache.items()
    first = next(walk)
    store.write([*state.changes()])
    mark_committed(state, 0)
    state.delete(b"c")
    assert [first, *walk] == [(b"a", 1)]

"""Layers of state: a value is decoded once, encoded once a commit, and read below only where it may be.

What state holds over changes, commits and restarts, `tests/properties/test_state.py` tells.
"""

import gc
from collections.abc import Iterator
from random import Random
from typing import Any
from weakref import ref

import pytest

from engines.eviction import settle
from fluvial.runtime.kernel.state_cache import Codec, KeyedState, Layer, Size, TimedState, evict
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


def layer(below: MemoryStore, complete: bool = False) -> Layer:
    return Layer(b"p", below, Codec(list[int]), list, complete)


def commit(one: Layer, below: MemoryStore, room: int) -> list[bytes]:
    """Write the changes; the keys that changed."""
    changes = list(one.changes())
    below.write(changes)
    one.settle()
    evict([one], Size(room, 1 << 60))
    return sorted(key for _, key, _ in changes if key is not None)


def test_a_value_is_read_once_and_only_what_was_set_is_written() -> None:
    below = Counted(a=b"\x91\x01", b=b"\x91\x02")
    state = layer(below)
    state.fresh[b"a"] = [*state.fresh[b"a"], 5]
    assert (state.fresh[b"a"], state.fresh[b"b"]) == ([1, 5], [2])
    assert commit(state, below, room=10) == [b"a"]
    assert state.fresh[b"a"] == [1, 5]
    assert below.asked == [b"a", b"b"]
    assert below.get(b"p", b"a") == b"\x92\x01\x05"


def test_a_layer_that_is_complete_reads_nothing_below() -> None:
    below = Counted()
    state = layer(below, complete=True)
    for room in (5, 5):
        state.fresh[b"a"] = [*state.fresh[b"a"], room]
        commit(state, below, room)
        assert (state.fresh[b"a"], state.fresh[b"b"]) == (dict(state.items())[b"a"], [])
    assert below.asked == []


@pytest.mark.parametrize("room", [3, 2, 0])
def test_more_than_there_is_room_for_is_kept_below_alone(room: int) -> None:
    below = Counted()
    state = layer(below, complete=True)
    for key in (b"a", b"b", b"c"):
        state.fresh[key] = [1]
    commit(state, below, room)
    assert len(state.clean) == room
    assert dict(state.items()) == {b"a": [1], b"b": [1], b"c": [1]}
    assert below.asked == ([] if room == 3 else ["scan"])


def test_a_key_that_changes_again_counts_once() -> None:
    below = Counted()
    state = layer(below, complete=True)
    for _ in range(3):
        for number in range(10):
            state.fresh[b"%d" % number] = [number]
        commit(state, below, room=10)
    assert len(state.clean) == 10
    assert state.complete


def test_what_was_used_last_stays_in_memory() -> None:
    below = Counted()
    state = layer(below, complete=True)
    for number in range(10):
        state.fresh[b"%d" % number] = [number]
    commit(state, below, room=10)
    assert state.fresh[b"0"] == [0]
    state.fresh[b"1"] = [*state.fresh[b"1"], 1]
    state.fresh[b"new"] = [1]
    commit(state, below, room=3)
    assert {*state.clean} == {b"0", b"1", b"new"}


def test_what_is_looked_up_stays_in_memory() -> None:
    below = Counted(a=b"\x91\x01")
    state = layer(below)
    for _ in range(3):
        assert state.fresh[b"a"] == [1]
    assert below.asked == [b"a"]
    assert list(state.changes()) == []


def test_little_more_than_there_is_room_for_costs_little_reading() -> None:
    below = Counted()
    state = layer(below, complete=True)
    keys = [b"%d" % number for number in range(110)]
    for key in keys:
        state.fresh[key] = [1]
    commit(state, below, room=100)
    chosen = Random(1)
    for _ in range(20):
        for key in chosen.choices(keys, k=50):
            state.fresh[key] = [*state.fresh[key], 1][:5]
        commit(state, below, room=100)
    assert len(below.asked) < 150  # of 1,000: one key in eleven is not in memory


@pytest.mark.parametrize("read", [False, True])
def test_large_values_are_kept_in_memory_up_to_a_number_of_bytes(read: bool) -> None:
    below = Counted()
    state = layer(below, complete=not read)
    for number in range(10):
        value = [300] * 1000  # three bytes each
        below.write([(b"p", b"%d" % number, Codec(list[int]).encode(value))])
        if read:
            assert state.fresh[b"%d" % number] == value
        else:
            state.fresh[b"%d" % number] = value
    below.write(state.changes())
    state.settle()
    assert 30_000 < state.held.bytes < 33_000
    evict([state], Size(1000, 16_000))
    assert [*state.clean] == [b"6", b"7", b"8", b"9"] or len(state.clean) == 5
    assert state.held.bytes <= 16_000
    for number in range(10):
        state.delete(b"%d" % number)
    assert state.held == Size(0, 0)


def test_all_layers_share_the_room() -> None:
    below = MemoryStore()
    layers = [Layer(b"%d" % number, below, Codec(int), int, complete=True) for number in range(3)]
    for one, size in zip(layers, (100, 10, 50), strict=True):
        for number in range(size):
            one.fresh[b"%d" % number] = number
        below.write(one.changes())
        one.settle()
    evict(layers, Size(80, 1 << 60))
    assert [len(one.clean) for one in layers] == [50, 5, 25]


def test_a_change_of_what_is_read_from_below_is_taken_back() -> None:
    state = layer(Counted(a=b"\x91\x01"))
    take_back = state.undo(b"a")
    state.fresh[b"a"].append(2)  # and then it fails
    take_back()
    assert state.fresh[b"a"] == [1]


def test_what_was_deleted_is_not_found_below_before_the_commit_or_after() -> None:
    below = Counted(a=b"\x91\x01", b=b"\x91\x02")
    state = layer(below)
    state.delete(b"a")
    assert (state.fresh[b"a"], dict(state.items())) == ([], {b"b": [2]})
    assert commit(state, below, room=10) == [b"a"]
    assert (state.fresh[b"a"], list(below.scan(b"p"))) == ([], [(b"b", b"\x91\x02")])


def test_a_deletion_that_is_taken_back_leaves_the_value_below() -> None:
    below = MemoryStore()
    below.write([(b"w\0k", b"key", b"\x07")])
    state = KeyedState("w", below, int, int, complete=False)
    take_back = state.layer.undo(b"key")
    state.delete(b"key")
    take_back()
    assert state.layer.fresh[b"key"] == 7
    assert list(state.changes()) == []


def test_what_was_deleted_and_set_again_stays() -> None:
    below = Counted(a=b"\x91\x01")
    state = layer(below)
    state.delete(b"a")
    assert commit(state, below, room=10) == [b"a"]
    state.fresh[b"a"] = [2]
    assert commit(state, below, room=10) == [b"a"]
    assert commit(state, below, room=10) == []
    assert dict(layer(below).items()) == {b"a": [2]}


def test_a_change_is_taken_back_though_the_value_itself_was_changed() -> None:
    below = Counted(a=b"\x91\x01")
    state = layer(below)
    state.fresh[b"a"] = state.fresh[b"a"]
    take_back = state.undo(b"a")
    state.fresh[b"a"].append(2)
    take_back()
    assert state.fresh[b"a"] == [1]


def test_times_below_zero_come_before_those_above() -> None:
    below = MemoryStore()
    written = timed(below, [])
    for time in (5, -5, 2**62, -(2**62)):
        written.fresh(time)[b"k"] = [time]
    below.write(written.changes())
    heard: list[int] = []
    assert timed(below, heard).first() == heard[0] == -(2**62)
    assert heard == [-(2**62), -5, 5, 2**62]


def test_a_time_used_again_after_it_was_dropped_holds_nothing() -> None:
    below = MemoryStore()
    heard: list[int] = []
    state = timed(below, heard)
    state.fresh(5)[b"k"] = [1]
    below.write(state.changes())
    settle(state, 0)
    state.drop(5)
    assert state.fresh(5)[b"k"] == []
    state.fresh(5)[b"other"] = [2]
    below.write(state.changes())
    assert heard == [5, 5]
    assert dict(timed(below, []).at[5].items()) == {b"other": [2]}


def test_operators_do_not_see_each_other_s_state() -> None:
    below = MemoryStore()
    names = ("a", "ab", "a-b")
    for number, name in enumerate(names):
        one = KeyedState(name, below, int, int, complete=True)
        one.layer.fresh[b"k"] = number
        one.layer.fresh[b"bk"] = number
        below.write([*one.changes()])
    found = [dict(KeyedState(name, below, int, int, complete=False).layer.items()) for name in names]
    assert found == [{b"k": number, b"bk": number} for number in range(3)]


def timed(below: MemoryStore, heard: list[int]) -> TimedState:
    return TimedState("op", below, list[int], list, complete=False, on_new=heard.append)


class Watched(list[int]):
    """A value that can be seen to be gone."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_what_a_time_held_is_gone_with_it(commits: int) -> None:
    # Without the garbage collector: over hours its last round comes too seldom.
    state = TimedState("op", MemoryStore(), list[int], list, complete=False, on_new=lambda _: None)
    state.fresh(5)[b"k"] = value = Watched()
    seen = ref(value)
    del value
    for _ in range(commits):
        settle(state, 10)
    gc.disable()
    try:
        state.drop(5)
        assert seen() is None
    finally:
        gc.enable()

"""Large values in chunks: what a commit writes of them, and what is read again.

What state holds over changes, commits and restarts, `tests/properties/test_state.py` tells.
"""

from collections.abc import Callable
from typing import Any

import pytest

from explained import assert_explains
from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.kernel.chunked_values import (
    CHUNK,
    HEAD,
    LAST_CHUNK,
    MARK,
    ChunkedValues,
    chunk_prefix,
    is_large,
    whole_value,
)
from fluvial.runtime.kernel.operators.state_entries import AS_BYTES
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.kernel.state_cache import KeyedState, WriteBackCache
from fluvial.runtime.kernel.state_codec import Codec, MsgpackCodec
from fluvial.runtime.state import MemoryStore

VALUES = b"w\0k"
NUMBERS = bytes(range(256)) * 1024


def values(store: MemoryStore, *, unused: bool = False) -> ChunkedValues:
    return ChunkedValues(VALUES, store, unused=unused)


def written(store: MemoryStore, chunks: ChunkedValues, data: bytes) -> list[Change]:
    changes = [*chunks.changes(b"key", data)]
    store.write(changes)
    return changes


def size(changes: list[Change]) -> int:
    return sum(len(value or b"") for _, _, value in changes)


@pytest.mark.parametrize("length", [CHUNK + 1, CHUNK + HEAD, CHUNK + HEAD + 1, 3 * CHUNK + 5, 200_000])
def test_a_large_value_is_read_as_it_was_written(length: int) -> None:
    store, data = MemoryStore(), NUMBERS[:length]
    changes = written(store, values(store), data)
    assert max(len(value or b"") for _, _, value in changes) <= CHUNK
    entry = store.get(VALUES, b"key") or b""
    assert entry.startswith(MARK)
    assert values(store).whole(b"key", entry) == data
    assert whole_value(store.get, VALUES, b"key", entry) == data


def test_a_value_that_grows_is_written_once() -> None:
    store = MemoryStore()
    chunks = values(store)
    per_commit, rounds = 2_000, 100
    total = sum(size(written(store, chunks, NUMBERS[: CHUNK + number * per_commit])) for number in range(1, rounds))
    # Each byte as part of a small chunk and of one that is full; besides an entry, and what fills no small chunk.
    assert total < CHUNK + rounds * (2 * per_commit + LAST_CHUNK + 2 * HEAD)


def test_a_change_in_the_middle_writes_one_chunk() -> None:
    store = MemoryStore()
    chunks = values(store)
    written(store, chunks, NUMBERS)
    changed = bytearray(NUMBERS)
    changed[5 * CHUNK] ^= 1
    assert size(written(store, chunks, bytes(changed))) < CHUNK + 2 * HEAD
    # One that was read, too.
    again = values(store)
    assert again.whole(b"key", store.get(VALUES, b"key") or b"") == changed
    assert size(written(store, again, NUMBERS)) < CHUNK + 2 * HEAD


def test_what_grows_behind_a_place_that_changes_writes_little() -> None:
    """As a session does behind one that is kept for late messages: its number of items is in the middle."""
    store = MemoryStore()
    chunks = values(store)
    data, place, total, per_commit, rounds = bytearray(NUMBERS), 3 * CHUNK + 5, 0, 2_000, 200
    written(store, chunks, bytes(data))
    for number in range(rounds):
        data += bytes([number]) * per_commit
        data[place] = number
        total += size(written(store, chunks, bytes(data)))
        assert values(store).whole(b"key", store.get(VALUES, b"key") or b"") == data
        if number % 50 == 49:
            chunks, place = values(store), place + CHUNK  # read again; it changes elsewhere
            chunks.whole(b"key", store.get(VALUES, b"key") or b"")
    # Where the place is another one, its stretch is written, and that of the last place.
    assert total < 3 * rounds * per_commit + 4 * 2 * CHUNK


@pytest.mark.parametrize("length", [CHUNK + HEAD, 2 * CHUNK + 2 * HEAD])
def test_what_changes_as_a_whole_stays_in_full_chunks(length: int) -> None:
    store = MemoryStore()
    chunks = values(store)
    commits = [written(store, chunks, bytes([number]) * length) for number in range(3)]
    assert max(len(value or b"") for _, _, value in commits[-1]) == CHUNK


def test_a_value_that_shrinks_to_before_its_hot_stretch_has_none() -> None:
    store = MemoryStore()
    chunks, data = values(store), bytearray(NUMBERS)
    written(store, chunks, bytes(data))
    data[6 * CHUNK] ^= 1
    written(store, chunks, bytes(data))
    for length in (5 * CHUNK, 7 * CHUNK):
        written(store, chunks, bytes(data[:length]))
        assert values(store).whole(b"key", store.get(VALUES, b"key") or b"") == data[:length]
    assert len([*store.scan(chunk_prefix(VALUES))]) == 6 + -(-(CHUNK - HEAD) // LAST_CHUNK)


@pytest.mark.parametrize("shorter", [CHUNK + 2 * HEAD, 10, 0])
def test_a_value_that_shrinks_leaves_no_chunk(shorter: int) -> None:
    store = MemoryStore()
    chunks = values(store)
    written(store, chunks, NUMBERS)
    written(store, chunks, NUMBERS[:shorter])
    assert whole_value(store.get, VALUES, b"key", store.get(VALUES, b"key") or b"") == NUMBERS[:shorter]
    left = [*store.scan(chunk_prefix(VALUES))]
    assert sum(len(value) for _, value in left) == (shorter - HEAD if is_large(bytes(shorter)) else 0)


@pytest.mark.parametrize("length", [CHUNK - 1, 2 * CHUNK - 1])
def test_a_long_key_is_not_written_with_each_kibibyte_of_a_value(length: int) -> None:
    store, key, data = MemoryStore(), b"k" * 100_000, NUMBERS[:length]
    state = WriteBackCache(VALUES, store, AS_BYTES, bytes, complete=True)
    state.fresh[key] = data
    changes = [*state.changes()]
    assert sum(len(rest or b"") + len(value or b"") for _, rest, value in changes) < 4 * (len(key) + len(data))
    store.write(changes)
    assert WriteBackCache(VALUES, store, AS_BYTES, bytes, complete=False).fresh[key] == data


def replaced(state: KeyedState) -> None:
    state.cache.fresh[b"key"] = b"small"


def deleted(state: KeyedState) -> None:
    state.delete(b"key")


@pytest.mark.parametrize("change", [replaced, deleted])
def test_what_was_not_read_is_replaced_with_all_its_chunks(change: Callable[[KeyedState], None]) -> None:
    store = MemoryStore()
    store.write([*ChunkedValues(VALUES, store, unused=True).changes(b"key", MsgpackCodec(bytes).encode(NUMBERS))])
    state = KeyedState("w", store, bytes, bytes, complete=False)
    change(state)
    store.write([*state.changes()])
    assert [*store.scan(chunk_prefix(VALUES))] == []


def test_what_was_never_large_is_not_looked_for() -> None:
    class Watched(MemoryStore):
        """Counts what is read."""

        reads = 0

        def get(self, prefix: bytes, key: bytes) -> bytes | None:
            self.reads += 1
            return super().get(prefix, key)

    store = Watched()
    state = KeyedState("w", store, bytes, bytes, complete=False)
    for number in range(100):
        state.cache.fresh[b"%d" % number] = b"small"
    store.write([*state.changes()])
    assert store.reads == 0


def test_a_value_that_looks_like_an_entry_is_told_from_one() -> None:
    """The bytes are of a user's Serde, and may be anything."""
    store, data = MemoryStore(), MARK + b"\0" * 8
    state = WriteBackCache(VALUES, store, AS_BYTES, bytes, complete=True)
    state.fresh[b"key"] = data
    store.write([*state.changes()])
    assert WriteBackCache(VALUES, store, AS_BYTES, bytes, complete=False).fresh[b"key"] == data


def test_what_leads_a_value_stays_in_front_of_the_mark() -> None:
    """Earlier versions read a time from there. They would take MARK for one, and the value for one that has expired."""
    store, data = MemoryStore(), b"the time" + NUMBERS
    codec = Codec(AS_BYTES.encode, AS_BYTES.decode, lead=8)
    state = WriteBackCache(VALUES, store, codec, bytes, complete=True)
    state.fresh[b"key"], state.fresh[b"like"] = data, b"a time, " + MARK + b"\0" * 8
    store.write([*state.changes()])
    entry = store.get(VALUES, b"key") or b""
    assert entry.startswith(b"the time" + MARK)
    again = WriteBackCache(VALUES, store, codec, bytes, complete=False)
    assert dict(again.items()) == {b"key": data, b"like": b"a time, " + MARK + b"\0" * 8}
    again.delete(b"key")
    store.write([*again.changes()])
    assert again.fresh[b"like"] == b"a time, " + MARK + b"\0" * 8
    again = WriteBackCache(VALUES, store, codec, bytes, complete=False)
    again.delete(b"like")
    store.write([*again.changes()])
    assert [*store.scan(chunk_prefix(VALUES)), *store.scan(VALUES)] == []


def test_a_missing_chunk_is_reported() -> None:
    store = MemoryStore()
    written(store, values(store), NUMBERS)
    at = chunk_prefix(VALUES)
    store.write([(at, [*store.scan(at)][3][0], None)])
    with pytest.raises(SystemProblem) as raised:
        whole_value(store.get, VALUES, b"key", store.get(VALUES, b"key") or b"")
    wrong = f"the state of 'w' cannot be read: of a value of {len(NUMBERS):,} bytes there are {len(NUMBERS) - CHUNK:,}"
    assert_explains(raised.value, wrong, None, "all chunks", "another id")


@pytest.mark.parametrize("complete", [True, False])
def test_all_chunks_go_with_the_values(complete: bool) -> None:
    store = MemoryStore()
    chunks: Any = values(store, unused=complete)
    written(store, chunks, NUMBERS)
    store.write(chunks.forgotten(complete=complete))
    assert [*store.scan(chunk_prefix(VALUES))] == []

"""The estimate of what has changed since the last commit, in bytes."""

import pytest

from fluvial.runtime.kernel.changed_bytes import ChangedBytes
from fluvial.runtime.kernel.state_cache import WriteBackCache
from fluvial.runtime.kernel.state_codec import MsgpackCodec
from fluvial.runtime.state import MemoryStore


def caches(number: int) -> list[WriteBackCache]:
    return [WriteBackCache(b"p%d" % n, MemoryStore(), MsgpackCodec(bytes), bytes, complete=True) for n in range(number)]


def fill(state: list[WriteBackCache], keys: range, size: int) -> None:
    for key in keys:
        state[key % len(state)].fresh[b"%d" % key] = bytes(size)


@pytest.mark.parametrize("number", [1, 7, 5000])
def test_the_bytes_of_changed_values_are_known_about(number: int) -> None:
    state, estimate = caches(number), ChangedBytes()
    fill(state, range(1000), 10_000)
    assert estimate.measure(state, 1000) == pytest.approx(10_000_000, rel=0.01)
    fill(state, range(1000, 3000), 20_000)  # new ones of another size
    assert estimate.measure(state, 1) == pytest.approx(50_000_000, rel=0.01)


def test_values_that_grow_are_measured_again() -> None:
    state, estimate = caches(1), ChangedBytes()
    fill(state, range(100), 100)
    estimate.measure(state, 100)
    fill(state, range(100), 10_000)
    assert estimate.measure(state, 100) == pytest.approx(1_000_000, rel=0.01)


def test_a_small_value_counts_as_an_entry_in_memory_does() -> None:
    state, estimate = caches(1), ChangedBytes()
    fill(state, range(1000), 1)
    assert estimate.measure(state, 1000) == 128_000


def test_little_is_encoded_for_each_message() -> None:
    """A value of a megabyte that changes with each message is not encoded for each."""
    encoded = 0

    def encode(value: bytes) -> bytes:
        nonlocal encoded
        encoded += len(value)
        return value

    codec = MsgpackCodec(bytes)
    codec.encode = encode
    state = [WriteBackCache(b"p", MemoryStore(), codec, bytes, complete=True)]
    fill(state, range(100), 1_000_000)
    estimate = ChangedBytes()
    for _ in range(1000):
        estimate.measure(state, 100)
    assert encoded <= 100 * 1000 * 64 + 3 * (4 << 20)


def test_nothing_is_left_after_a_commit_or_without_values() -> None:
    state, estimate = caches(2), ChangedBytes()
    fill(state, range(10), 1000)
    estimate.measure(state, 10)
    estimate.begin()
    for cache in state:
        cache.mark_committed()
    assert (estimate.bytes, estimate.measure(state, 5)) == (0, 0)
    fill(state, range(10), 1000)
    assert estimate.measure(state, 5) == pytest.approx(10_000, rel=0.01)


def test_a_value_that_cannot_be_encoded_is_left_to_the_commit() -> None:
    state, estimate = caches(1), ChangedBytes()
    state[0].fresh[b"key"] = 1 << 80
    assert estimate.measure(state, 1) == 128

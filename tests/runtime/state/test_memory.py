"""The store in memory: what was written is found, in order, under its prefix."""

from fluvial.runtime.kernel.state_backend import PREFIX_SIZE
from fluvial.runtime.state import MemoryStore


def filled() -> MemoryStore:
    store = MemoryStore()
    store.write([(b"a\0", b"2", b"two"), (b"a\0", b"1", b"one"), (b"b\0", b"1", b"other")])
    return store


def test_a_key_is_found_under_its_prefix() -> None:
    store = filled()
    assert (store.get(b"a\0", b"1"), store.get(b"b\0", b"1"), store.get(b"b\0", b"2")) == (b"one", b"other", None)


def test_entries_come_in_the_order_of_their_keys() -> None:
    assert [*filled().scan(b"a\0")] == [(b"1", b"one"), (b"2", b"two")]


def test_a_value_of_none_deletes_its_entry() -> None:
    store = filled()
    store.write([(b"a\0", b"1", None), (b"a\0", b"unknown", None)])
    assert [*store.scan(b"a\0")] == [(b"2", b"two")]


def test_a_change_without_key_deletes_what_is_under_its_prefix() -> None:
    store = filled()
    store.write([(b"a\0", None, None), (b"a\0", b"3", b"new")])
    assert [*store.scan(b"")] == [(b"a\x003", b"new"), (b"b\x001", b"other")]


def test_the_prefixes_that_have_entries_are_listed_once_each() -> None:
    store = MemoryStore()
    first, second = (b"t" + bytes([number]) * PREFIX_SIZE for number in (1, 2))
    store.write([(second, b"1", b""), (first, b"1", b""), (first, b"2", b""), (b"u" * 20, b"1", b"")])
    assert [*store.prefixes(b"t")] == [first, second]
    assert [store.holds(prefix) for prefix in (first, b"t", b"none")] == [True, True, False]


def test_a_store_outlives_a_sync_and_a_close_and_no_clear() -> None:
    store = filled()
    store.sync()
    store.close()
    assert store.get(b"a\0", b"1") == b"one"
    store.clear()
    assert [*store.scan(b"")] == []

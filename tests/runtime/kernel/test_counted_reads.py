"""Reads of a backend are counted in entries and bytes."""

from fluvial.runtime.kernel.counted_reads import CountedReads
from fluvial.runtime.kernel.state_cache import LIGHT, Size
from fluvial.runtime.state import MemoryStore


def test_values_that_are_read_are_counted_until_counting_begins_anew() -> None:
    store = MemoryStore()
    store.write([(b"p", b"a", b"123"), (b"p", b"b", b"4")])
    reads = CountedReads(store)
    assert [reads.get(b"p", key) for key in (b"a", b"b", b"nothing")] == [b"123", b"4", None]
    assert reads.size == Size(2, 4 + 2 * LIGHT)
    reads.begin()
    assert reads.size == Size(0, 0)


def test_scans_read_through_and_are_not_counted() -> None:
    store = MemoryStore()
    store.write([(b"p12345678\0", b"a", b"123")])
    reads = CountedReads(store)
    assert list(reads.scan(b"p12345678\0")) == [(b"a", b"123")]
    assert list(reads.prefixes(b"p")) == list(store.prefixes(b"p"))
    assert [reads.holds(b"p"), reads.holds(b"q")] == [store.holds(b"p"), store.holds(b"q")]
    assert reads.size == Size(0, 0)

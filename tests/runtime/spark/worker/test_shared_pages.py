"""Pages that prefixes with few entries share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark engine is tested where pyspark is installed")

from engines.spark_in_process import Blobs
from fluvial.runtime.spark.worker.shared_pages import SharedPages

ENTRIES = st.dictionaries(st.binary(max_size=2), st.binary(max_size=2), min_size=1, max_size=3)


@given(st.dictionaries(st.binary(min_size=1, max_size=2), ENTRIES, max_size=9), st.integers(1, 4), st.integers(1, 9))
def test_all_is_there_over_any_number_of_pages(held: dict[bytes, dict[bytes, bytes]], before: int, after: int) -> None:
    blobs = Blobs()
    pages = SharedPages(blobs, before)
    for prefix, entries in held.items():
        pages.put(prefix, entries)
    pages.write()
    assert len(blobs.data) <= min(before, len(held))
    again = SharedPages(blobs, before)
    again.spread(after)
    again.write()
    assert len(blobs.data) <= min(after, len(held))
    last = SharedPages(blobs, after)
    assert {prefix: last.entries(prefix) for prefix in held} == held


def test_a_page_without_entries_is_removed_and_one_without_changes_is_not_written() -> None:
    blobs = Blobs()
    pages = SharedPages(blobs, 1)
    pages.put(b"a", {b"k": b"1"})
    pages.write()
    blobs.data.clear()
    pages.write()
    assert blobs.data == {}
    pages.put(b"a", {})
    pages.write()
    assert blobs.data == {}

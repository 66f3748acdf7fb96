"""Blocks of messages: what goes in comes out, in order, in blocks of a fitting size."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from generators.how_many import examples

pytest.importorskip("pyarrow", reason="rows are Arrow's")

from fluvial.dsl.message import Record
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.rows import BLOCK_BYTES, Messages, arrow_batch, blocks_of, by_bucket, messages_of

headers = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2).map(tuple)
optional = st.none() | st.binary(max_size=4)
records = st.lists(st.tuples(optional, optional, st.integers(-(2**63), 2**63 - 1), headers), min_size=1, max_size=30)


@tries(max_examples=examples(800))
@given(records, st.integers(1, 5))
def test_each_bucket_gets_the_messages_of_its_keys_in_their_order(found: list[Record], buckets: int) -> None:
    key_buckets = KeyBuckets(buckets)
    rows = list(by_bucket(1, key_buckets, messages_of("s", 3, range(7, 7 + len(found)), found)))
    placed: dict[int, Record] = {}
    bucket_of: dict[bytes | None, int] = {None: 0}
    for (_, label, _), block in zip(rows, blocks_of([arrow_batch(rows)]), strict=True):
        assert isinstance(block, Messages)
        assert (block.stream, block.producer) == ("s", 3)
        assert list(block.positions) == sorted(block.positions)
        for position, record in zip(block.positions, block.records(), strict=True):
            placed[position] = record
            bucket = key_buckets.of_label[label]
            assert bucket_of.setdefault(record[0], bucket) == bucket
    assert [placed[7 + index] for index in range(len(found))] == found
    assert len(placed) == len(found)


def test_large_messages_travel_in_blocks_of_their_own() -> None:
    large = b"x" * (BLOCK_BYTES // 2)
    found: list[Record] = [(b"k", large, time, ()) for time in range(5)]
    found.append((b"k", large * 4, 5, ()))
    rows = list(by_bucket(1, KeyBuckets(1), messages_of("s", 0, range(6), found)))
    blocks = [block for block in blocks_of([arrow_batch(rows)]) if isinstance(block, Messages)]
    assert [record for block in blocks for record in block.records()] == found
    assert all(len(row[2]) <= BLOCK_BYTES for row in rows[:-1])
    assert all(before.positions[-1] < after.positions[0] for before, after in pairwise(blocks))


def test_no_rows_are_an_empty_batch() -> None:
    assert list(blocks_of([arrow_batch([])])) == []

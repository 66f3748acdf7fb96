"""The key bucket of a record."""

from collections import Counter
from zlib import crc32

import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.kernel.key_buckets import TO_ALL, bucket_of, discarded, key_buckets
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer, with_trailer


def record(key: bytes | None, value: bytes | None = b"v") -> Record:
    return key, value, 0, ()


KEYS = [f"k{number}".encode() for number in range(1000)]


@pytest.mark.parametrize("elasticity", [1, 2, 4, 64])
def test_a_key_has_one_bucket_that_its_bytes_tell(elasticity: int) -> None:
    found = key_buckets(list(map(record, KEYS)), range(1000), elasticity, trailers=False)
    assert [*found] == [crc32(key) % elasticity for key in KEYS] == [bucket_of(key, elasticity) for key in KEYS]


def test_the_buckets_of_a_larger_elasticity_divide_those_of_a_smaller_one() -> None:
    assert all(bucket_of(key, 64) % few == bucket_of(key, few) for key in KEYS for few in (1, 2, 4, 8, 16, 32))


def test_keys_spread_evenly() -> None:
    counts = Counter(bucket_of(key, 4) for key in KEYS)
    assert min(counts.values()) > 200


def test_without_key_it_is_that_of_the_offset() -> None:
    assert [*key_buckets([record(None)] * 3, [7, 9, 12], 4, trailers=False)] == [3, 1, 0]


def test_a_control_message_is_for_all_and_a_tombstone_without_key_is_not() -> None:
    control = control_record(ControlMessage("run", 1, 0, 1, 5, ended=False), 0)
    tombstone = with_trailer(record(None, None), pack_trailer(0, 5))
    assert [*key_buckets([control, tombstone], [0, 1], 2, trailers=True)] == [TO_ALL, 1]


def test_what_is_discarded_is_of_other_buckets_and_no_control_message() -> None:
    assert discarded(bytes([0, 1, TO_ALL, 1, 3]), 1) == 2

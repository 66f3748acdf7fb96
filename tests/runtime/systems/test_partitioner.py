"""Keys lie where Kafka's Java clients put them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.systems.partitioner import partition_for

# Source: Apache Kafka, UtilsTest.testMurmur2 (clients/src/test/java/org/apache/kafka/common/utils).
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hash_"), JAVA_HASHES.items())
def test_a_key_goes_where_java_puts_it(key: bytes, hash_: int) -> None:
    assert partition_for(key, 1000) == (hash_ & 0x7FFFFFFF) % 1000


@given(st.binary(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


def test_without_a_key_messages_stay_together() -> None:
    assert partition_for(None, 7) == 0

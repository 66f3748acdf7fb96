"""The partition of a key: the same as that of Kafka's Java clients."""

from collections.abc import Callable

from confluent_kafka import murmur2

partition_of: Callable[[bytes, int], int] = murmur2
"""The partition of a key, given the number of partitions."""


def partition_for(key: bytes | None, partitions: int) -> int:
    """The partition of a key among `partitions` of them; 0 without a key, so that messages without one stay together.

    >>> partition_for(b"foobar", 100), partition_for(None, 100)
    (66, 0)
    """
    return 0 if key is None else partition_of(key, partitions)

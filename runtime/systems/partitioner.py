"""Which partition a key belongs to: the choice that Kafka's Java clients make."""

from confluent_kafka import murmur2


def partition_for(key: bytes | None, partitions: int) -> int:
    """The partition of a key among `partitions` of them; 0 without a key, so that messages without one stay together.

    >>> partition_for(b"foobar", 100), partition_for(None, 100)
    (66, 0)
    """
    return 0 if key is None else murmur2(key, partitions)

"""Key buckets: the bucket of each key, and the label by which Spark puts a bucket into a task.

Spark's stateful operators keep their state by bucket. Spark puts each bucket into one of its shuffle partitions, by a
hash of the number in the column `bucket`. If the numbers were 0, 1, 2 ..., some partitions would have several buckets
and others none. Labels are chosen so that bucket i of n comes to partition i of n. So each partition of a divisor of n
has the same number of buckets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

ON_FEW_CORES, ON_MANY_CORES = 64, 512
"""The number of buckets of a new query, by default. Each bucket costs about a millisecond of each batch in which it
runs; 512 let a query have hundreds of tasks later."""
# 64 buckets are 8 or more for each of so many cores, enough to spread a load evenly.
_FEW = 8
EARLIER = 8
"""The default of earlier versions."""
MOST = 4096
"""The largest number of buckets."""
_SEED = 42
"""With which Spark hashes the columns of a shuffle."""
# Java's int has 32 bits and wraps around, which Python's does not by itself.
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class KeyBuckets:
    """The key buckets of a query. `labels` has the label of each; in checkpoints of an earlier version the number of a
    bucket is its label, and they are not `balanced`.

    >>> KeyBuckets(4).labels, KeyBuckets(4, balanced=False).labels
    ((12, 6, 2, 0), (0, 1, 2, 3))
    """

    count: int
    balanced: bool = True

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each bucket, by which Spark shuffles its rows."""
        return _labels(self.count) if self.balanced else tuple(range(self.count))

    def partitions(self, cores: int) -> int:
        """The number of shuffle partitions: the least divisor of the number of buckets that gives work to all cores.

        >>> KeyBuckets(512).partitions(6), KeyBuckets(512).partitions(1000), KeyBuckets(9).partitions(2)
        (8, 512, 3)
        """
        return next(tasks for tasks in range(min(cores, self.count), self.count + 1) if self.count % tasks == 0)

    @cached_property
    def of_label(self) -> Mapping[int, int]:
        """The number of the bucket that has each label."""
        return {label: bucket for bucket, label in enumerate(self.labels)}


def default_count(cores: int) -> int:
    """The number of buckets of a query that starts with so many cores for the first time.

    >>> default_count(2), default_count(64)
    (64, 512)
    """
    return ON_FEW_CORES if cores <= _FEW else ON_MANY_CORES


def partition_of(label: int, partitions: int) -> int:
    """The shuffle partition into which Spark puts a label: Murmur3 of an int, as Spark computes it."""
    mixed = (label & _WORD) * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    hashed = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    hashed ^= 4  # the length of an int in bytes
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


@cache
def _labels(count: int) -> tuple[int, ...]:
    labels: dict[int, int] = {}
    label = 0
    while len(labels) < count:
        labels.setdefault(partition_of(label, count), label)
        label += 1
    return tuple(labels[bucket] for bucket in range(count))

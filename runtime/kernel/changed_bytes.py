"""The bytes of the values that have changed since the last commit, estimated from samples: to encode each value when it
changes would cost as much again as the commit."""

from collections.abc import Iterator, Sequence
from itertools import islice

from .state_cache import LIGHT, WriteBackCache

_SAMPLES = 32
"""About how many values are encoded for an estimate of all; their mean size stands for that of the others."""
_NEW_SAMPLES = 8
"""About how many are encoded of the values that are new since the last estimate, which is made after each slice."""
_MOST_BYTES = 4 << 20
"""A sample ends once it has encoded that much."""
_BYTES_PER_MESSAGE = 64
"""How many bytes a repeated sample may encode for each message that was processed since the last such sample."""


class ChangedBytes:
    """An estimate of the bytes of the changed values, as `Size` counts them.

    Values that have changed since the last `measure` are sampled each time. Those that had changed before may have
    grown since. So all are sampled again once enough messages were processed to make the cost of that small.
    """

    __slots__ = ("_again_after", "_entries", "bytes")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start again at 0: the changes are committed, or there are none yet."""
        self.bytes = self._entries = self._again_after = 0

    def measure(self, caches: Sequence[WriteBackCache], messages: int) -> int:
        """Measure after so many messages more were processed; returns the bytes."""
        entries = sum(len(cache.fresh) for cache in caches)
        if entries == 0:
            self.begin()
            return 0
        self._again_after -= messages
        if self._again_after <= 0:
            starts = [0] * len(caches)
            mean, encoded = _mean_size(caches, starts, entries // _SAMPLES)
            self.bytes = mean * entries
            self._again_after = max(entries // 2, encoded // _BYTES_PER_MESSAGE)
        else:
            starts = [min(cache.measured, len(cache.fresh)) for cache in caches]
            new = entries - sum(starts)
            if new:
                self.bytes += _mean_size(caches, starts, new // _NEW_SAMPLES)[0] * new
        for cache in caches:
            cache.measured = len(cache.fresh)
        return self.bytes


def _mean_size(caches: Sequence[WriteBackCache], starts: Sequence[int], step: int) -> tuple[int, int]:
    """The mean size of every `step`-th of the changed values of each cache from an index on, and how much was encoded
    for it."""
    samples = size = encoded = 0
    for cache, key in _every(caches, starts, max(1, step)):
        one = cache.size_of(key)
        encoded += one
        size += max(LIGHT, one)
        samples += 1
        if encoded > _MOST_BYTES:
            break
    return size // max(1, samples), encoded


def _every(
    caches: Sequence[WriteBackCache], starts: Sequence[int], step: int
) -> Iterator[tuple[WriteBackCache, bytes]]:
    """Every `step`-th key that has changed since the index `start` of its cache, the latest first."""
    skipped = step // 2
    for cache, start in zip(caches, starts, strict=True):
        new = len(cache.fresh) - start
        if skipped >= new:
            skipped -= new
            continue
        for key in islice(reversed(cache.fresh), skipped, new, step):
            yield cache, key
        skipped = (skipped - new) % step

"""The most frequent keys of many, in bounded memory: a space-saving sketch (Metwally, Agrawal, El Abbadi 2005)."""

from heapq import heappush, heapreplace, nlargest
from typing import NamedTuple

# A key with more than 1.6 % of the messages surely has an entry. Keys with less are never reported as hot.
ENTRIES = 64
HALVED_AT = 1024
"""Counts are halved once so many keys have been added: then the older ones weigh less than the newer ones."""


class FrequentKey(NamedTuple):
    """A key, and the fraction of all keys that it is `at_least` and `at_most`."""

    key: bytes
    at_least: float
    at_most: float


class SpaceSaving:
    """Counts keys in so many `entries`. A key without entry takes that of the key with the least count, and goes on
    from this count: it is too large by `total / entries` at most. So a key that comes more often than that has an
    entry.

    >>> keys = SpaceSaving(entries=2)
    >>> for key in (b"a", b"b", b"a", b"c", b"a"):
    ...     keys.add(key)
    >>> keys.hottest(2)
    [FrequentKey(key=b'a', at_least=0.6, at_most=0.6), FrequentKey(key=b'c', at_least=0.2, at_most=0.4)]
    """

    def __init__(self, entries: int = ENTRIES, halved_at: int = HALVED_AT) -> None:
        self.total = 0.0
        self._entries = entries
        self._halved_at = halved_at
        self._counts: dict[bytes, float] = {}
        self._errors: dict[bytes, float] = {}
        # Each key that has an entry, with its count as it was when the heap was last put right for it.
        self._heap: list[tuple[float, bytes]] = []

    def add(self, key: bytes) -> None:
        """Count a key."""
        if self.total >= self._halved_at:
            self._halve()
        self.total += 1
        if key in self._counts:
            self._counts[key] += 1
        elif len(self._counts) < self._entries:
            self._counts[key], self._errors[key] = 1.0, 0.0
            heappush(self._heap, (1.0, key))
        else:
            self._replace_least(key)

    def _replace_least(self, key: bytes) -> None:
        counts, heap = self._counts, self._heap
        # Counts grow, so what is in the heap is too low where it is not right.
        while counts[heap[0][1]] != heap[0][0]:
            heapreplace(heap, (counts[heap[0][1]], heap[0][1]))
        least, replaced = heap[0]
        del counts[replaced], self._errors[replaced]
        counts[key], self._errors[key] = least + 1, least
        heapreplace(heap, (least + 1, key))

    def _halve(self) -> None:
        """Halve all counts: what they say of each other, and of the total, stays."""
        self.total /= 2
        self._counts = {key: count / 2 for key, count in self._counts.items()}
        self._errors = {key: error / 2 for key, error in self._errors.items()}
        self._heap = [(count / 2, key) for count, key in self._heap]

    def hottest(self, most: int) -> list[FrequentKey]:
        """The keys, at most so many, that are the largest part of the total for certain."""
        parts = (
            FrequentKey(key, (count - self._errors[key]) / self.total, count / self.total)
            for key, count in self._counts.items()
        )
        return nlargest(most, parts, key=lambda one: (one.at_least, one.at_most, one.key))

"""The contract of a state backend: the state of the last commit as bytes, and the changes that a commit makes to it."""

from collections.abc import Iterator
from typing import Protocol

Change = tuple[bytes, bytes | None, bytes | None]
"""The prefix, the rest of the key, and the new value; the value None deletes the entry. A change without a key deletes
all entries under its prefix, which may be more than fit in memory. It comes before other changes under that prefix."""

PREFIX_SIZE = 9
"""Bytes that a time adds to a prefix."""


class StateBackend(Protocol):
    """The state of the last commit, as bytes. Keys of one kind share a prefix; no prefix is the start of another."""

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key under a prefix; None if there is none."""
        ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys: (key without the prefix, value)."""
        ...

    def holds(self, prefix: bytes) -> bool:
        """Whether there are entries under a prefix."""
        ...

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes with entries that consist of `start` and PREFIX_SIZE more bytes."""
        ...

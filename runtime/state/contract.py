"""What a store owes a task."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..kernel.state_cache import Change


class TaskStore(Protocol):
    """The state of one task, as bytes. What `write` took is there after a crash, all of one call or nothing of it."""

    def get(self, prefix: bytes, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys: (key without the prefix, value)."""
        ...

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes of PREFIX_SIZE bytes more than `start`, which they begin with, that hold entries, in order."""
        ...

    def write(self, changes: Iterable[Change]) -> None:
        """Make the changes, in their order, at one stroke."""
        ...

    def clear(self) -> None:
        """Delete all entries."""
        ...

    def sync(self) -> None:
        """Make what was written safe from a power cut too."""
        ...

    def close(self) -> None: ...

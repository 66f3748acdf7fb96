"""The contract of a store: what a task may rely on."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..kernel.state_backend import Change


class TaskStore(Protocol):
    """The state of one task, as bytes. A write survives a crash of the process, as a whole or not at all."""

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
        """The prefixes that begin with `start`, are PREFIX_SIZE bytes longer, and have entries; in order."""
        ...

    def write(self, changes: Iterable[Change]) -> None:
        """Make the changes in their order, all or none."""
        ...

    def clear(self) -> None:
        """Delete all entries."""
        ...

    def sync(self) -> None:
        """Make all writes survive a power cut too."""
        ...

    def close(self) -> None:
        """Release the store. It may then be opened by another process."""
        ...

"""What a store owes a task."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..kernel.state import Change


class TaskStore(Protocol):
    """The state of one task, as bytes. What `write` took is there after a crash, all of one call or nothing of it."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries with start <= key < stop, in the order of their keys."""
        ...

    def write(self, changes: Iterable[Change]) -> None:
        """Make the changes, in their order, at one stroke."""
        ...

    def close(self) -> None: ...

"""What a task's stateful operators have in common: windows and joins."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .state_cache import Change, WriteBackCache


class StatefulOperator(Protocol):
    """An operator that keeps messages and emits later, at work in one task."""

    @property
    def add(self) -> Callable[..., None]:
        """Takes a message in: key bytes, value, timestamp in ms, headers, the watermark by which it may be late; and,
        where there are two inputs, which one it came by, 0 or 1."""
        ...

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """What takes back the `add` of a message with this key and timestamp, to be asked for before."""
        ...

    def advance(self, watermark: int) -> None:
        """Emit what is due, earliest first, and forget what is over."""
        ...

    def next_due(self) -> int:
        """The watermark from which `advance` has something to do."""
        ...

    @property
    def changed(self) -> int:
        """How many values have changed since the last `mark_committed`, about."""
        ...

    def changes(self) -> Iterator[Change]: ...

    def mark_committed(self) -> None:
        """The changes are written."""
        ...

    def caches(self) -> Iterable[WriteBackCache]:
        """What it holds in memory."""
        ...


def keyless() -> TypeError:
    """The error of a message that nobody's state could take."""
    return TypeError("a message without key cannot be kept by key")

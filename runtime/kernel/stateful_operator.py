"""The contract of stateful operators: those that keep state by key and may emit later."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .state_backend import Change
from .state_cache import WriteBackCache


class StatefulOperator(Protocol):
    """A stateful operator in one task: it keeps state by key, and may emit later."""

    @property
    def add(self) -> Callable[..., None]:
        """Adds a message: key bytes, value, timestamp in ms, headers, and the watermark by which it may be late. An
        operator with two inputs is also given the input, 0 or 1."""
        ...

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that takes back all that the `add` of a message with this key and timestamp changes. To be called
        before `add`."""
        ...

    def advance(self, watermark: int) -> bool:
        """Emit what is due, earliest first, and delete what has expired. END is the end of input: a later run may go on
        with more, from the watermark before it. Returns False if the firing has paused: nothing is added until it has
        ended, and it goes on when this is called again with the same watermark."""
        ...

    def next_due(self) -> int:
        """The watermark from which `advance` has something to do."""
        ...

    @property
    def changed(self) -> int:
        """About how many values have changed since the last `mark_committed`."""
        ...

    def changes(self) -> Iterator[Change]:
        """The changes since the last `mark_committed`, as bytes for the backend."""
        ...

    def mark_committed(self) -> None:
        """Take the changes as committed: they are not changes any more, and their entries may be evicted."""
        ...

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold its state in memory."""
        ...


KEYLESS = "a message without key cannot be kept by key"


def keyless() -> TypeError:
    """The error of a message without key at an operator that keeps state by key."""
    return TypeError(KEYLESS)

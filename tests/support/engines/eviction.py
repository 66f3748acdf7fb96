"""Commits after which little of the state stays in memory."""

from collections.abc import Iterable
from typing import Protocol

from fluvial.runtime.kernel.state_cache import Size, WriteBackCache, evict


class Cached(Protocol):
    """State that keeps values in memory."""

    def mark_committed(self) -> None: ...

    def caches(self) -> Iterable[WriteBackCache]: ...


def mark_committed(state: Cached, entries: int, size: int = 1 << 60) -> None:
    """The changes of some state are written; it keeps at most so many entries, of so many bytes, in memory."""
    state.mark_committed()
    evict(state.caches(), Size(entries, size))

"""Commits after which little of the state stays in memory."""

from collections.abc import Iterable
from typing import Protocol

from fluvial.runtime.kernel.state_cache import Layer, Size, evict


class Cached(Protocol):
    """State that keeps values in memory."""

    def settle(self) -> None: ...

    def layers(self) -> Iterable[Layer]: ...


def settle(state: Cached, entries: int, size: int = 1 << 60) -> None:
    """The changes of some state are written; it keeps at most so many entries, of so many bytes, in memory."""
    state.settle()
    evict(state.layers(), Size(entries, size))

"""The windows of a timestamp, by their ends, for assigners whose windows are aligned to the epoch."""

from collections.abc import Callable, Iterable

from ....dsl.message import Window
from ....dsl.windows.assigners import Hopping, Tumbling, Unbounded
from ..time.bounds import EARLIEST, END, LATEST

Aligned = Tumbling | Hopping | Unbounded

EVERYTHING = Window(EARLIEST, LATEST)
"""The window that never ends. Operators store it under END."""


def ends_of(assigner: Aligned) -> Callable[[int], Iterable[int]]:
    """A function that returns the ends of a timestamp's windows, earliest first."""
    if isinstance(assigner, Unbounded):
        only = (END,)
        return lambda _: only
    size = assigner.size
    if isinstance(assigner, Tumbling):
        return lambda timestamp: (timestamp - timestamp % size + size,)
    every = assigner.every

    def ends(timestamp: int) -> range:
        last = timestamp - timestamp % every + size
        # The first window of the timestamp has the first end after it.
        first = last - (last - timestamp - 1) // every * every
        return range(first, last + 1, every)

    return ends


def window_of(assigner: Aligned) -> Callable[[int], Window]:
    """A function that returns the window of an end."""
    if isinstance(assigner, Unbounded):
        return lambda _: EVERYTHING
    size = assigner.size
    return lambda end: Window(end - size, end)

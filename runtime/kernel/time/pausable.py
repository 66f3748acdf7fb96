"""Firings that pause: what is due is emitted in pieces, as there is room for what they start."""

from collections.abc import Callable, Iterator


class PausableFiring:
    """The firing of an operator: an iterator that yields wherever it pauses. Nothing is added to the operator until the
    firing has ended."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: Iterator[None] | None = None

    @property
    def paused(self) -> bool:
        """Whether a firing has begun and not ended."""
        return self._rest is not None

    def run(self, begin: Callable[[], Iterator[None]]) -> bool:
        """Begin a firing, or go on with the one that has paused. Returns whether it has ended."""
        rest = begin() if self._rest is None else self._rest
        self._rest = None
        for _ in rest:
            self._rest = rest
            return False
        return True

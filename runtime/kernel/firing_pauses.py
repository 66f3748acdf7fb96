"""Where firings pause, so that what they start and emit stays bounded."""

from collections.abc import Callable

from .output_buffer import OutputBuffer

PIECE = 1000
"""Emissions after which outputs may be handed over."""


class FiringPauses:
    """To be called after each emission of a firing: returns whether the firing is to pause.

    In a stage with asynchronous calls it pauses while `capacity()` has no room for another call. In any stage it pauses
    after PIECE emissions if the engine is `full()`: if it wants to commit what it was handed before it takes more.
    """

    def __init__(self, outputs: OutputBuffer, capacity: Callable[[], int] | None, full: Callable[[], bool]) -> None:
        self._outputs = outputs
        self._capacity = capacity
        self._full = full
        self._count = 0

    def __call__(self) -> bool:
        """Whether the firing is to pause behind what it has just emitted."""
        self._count += 1
        if self._count >= PIECE:
            self._count = 0
            self._outputs.hand_over_if_many()
            if self._full():
                return True
        return self._capacity is not None and self._capacity() <= 0

    @property
    def has_room(self) -> bool:
        """Whether a firing that has paused may go on."""
        return (self._capacity is None or self._capacity() > 0) and not self._full()

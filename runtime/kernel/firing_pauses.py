"""Where firings pause, so that what they start and emit stays bounded."""

from collections.abc import Callable

from .output_buffer import OutputBuffer

PIECE = 1000
"""The most emissions after which outputs are handed over."""
FIRST_PIECE = 16
"""Emissions before the size of outputs is known."""
TURN = 10_000
"""Emissions after which an engine that takes turns has one."""
PIECE_BYTES = 4 << 20
"""So many bytes of outputs are handed over at a time, where one emission has no more."""


class FiringPauses:
    """To be called after each emission of a firing: returns whether the firing is to pause.

    In a stage with asynchronous calls it pauses while `capacity()` has no room for another call. In any stage it pauses
    after a piece, PIECE emissions or fewer large ones, if the engine is `full()`: if it wants to commit what it was
    handed before it takes more. With `turns` it pauses every now and then: the engine has other work, too.
    """

    def __init__(
        self,
        outputs: OutputBuffer,
        capacity: Callable[[], int] | None,
        full: Callable[[], bool],
        *,
        turns: bool = False,
    ) -> None:
        self._outputs = outputs
        self._capacity = capacity
        self._full = full
        self._turns = turns
        self._count = self._since_turn = 0
        self._piece = min(FIRST_PIECE, PIECE)

    def __call__(self) -> bool:
        """Whether the firing is to pause behind what it has just emitted."""
        self._count += 1
        if self._count >= self._piece:
            self._since_turn += self._count
            self._count = 0
            size = self._outputs.hand_over()
            fitting = 2 * self._piece if 2 * size <= PIECE_BYTES else self._piece * PIECE_BYTES // size
            self._piece = max(1, min(PIECE, fitting))
            if self._full() or (self._turns and self._since_turn >= TURN):
                self._since_turn = 0
                return True
        return self._capacity is not None and self._capacity() <= 0

    @property
    def has_room(self) -> bool:
        """Whether a firing that has paused may go on."""
        return (self._capacity is None or self._capacity() > 0) and not self._full()

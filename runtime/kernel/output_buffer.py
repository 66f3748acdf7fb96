"""The outputs of a task, until its engine drains them."""

from collections.abc import Callable, Iterator
from typing import Any

DEAD_LETTERS = "dead-letters"
"""Takes the place of an operator's id for dead letters."""
HAND_OVER_COUNT = 1000
"""As many outputs are handed over in the middle of a firing."""

HandOver = Callable[[str, list[Any]], None]
"""Takes the outputs of an operator."""


class OutputBuffer:
    """Outputs by operator: records, messages for a sink, late records of a window; and DEAD_LETTERS.

    They wait for `drain`. A firing may make more of them than a batch of messages does: where there is a `hand_over`,
    it is given them in between, as often as there are MUCH.
    """

    def __init__(self, letters: list[Any], hand_over: HandOver | None = None) -> None:
        self._by_operator: dict[str, list[Any]] = {}
        self._letters = letters
        self._hand_over = hand_over

    def of(self, operator: str) -> list[Any]:
        """The list that an operator adds its outputs to."""
        return self._by_operator.setdefault(operator, [])

    def __len__(self) -> int:
        return sum(map(len, self._by_operator.values()))

    def drain(self) -> Iterator[tuple[str, list[Any]]]:
        """The outputs made since the last call, by operator."""
        for operator, outputs in (*self._by_operator.items(), (DEAD_LETTERS, self._letters)):
            if outputs:
                taken = outputs.copy()
                outputs.clear()
                yield operator, taken

    def hand_over_if_many(self) -> None:
        """Hand over the outputs if there are HAND_OVER_COUNT of them."""
        if self._hand_over is not None and len(self) >= HAND_OVER_COUNT:
            for operator, outputs in self.drain():
                self._hand_over(operator, outputs)

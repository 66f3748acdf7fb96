"""The outputs of a task, until its engine drains them."""

from collections.abc import Callable, Iterator
from typing import Any

DEAD_LETTERS = "dead-letters"
"""The key of dead letters, in place of an operator's id."""
HAND_OVER_COUNT = 1000
"""The number of outputs that are handed over in the middle of a firing."""

# To measure all values would take as long as to hand them over; some tell well enough whether a commit is due early.
_SAMPLES = 32

HandOver = Callable[[str, list[Any]], None]
"""Takes the outputs of an operator."""


class OutputBuffer:
    """Outputs by operator: records, messages for a sink, late records of a window; and DEAD_LETTERS.

    They stay until `drain`. A firing may produce more outputs than a batch. With `hand_over` the buffer is emptied
    whenever it has `many` outputs. What an operator `finishes` its outputs by makes records of them as they leave.
    """

    def __init__(self, dead_letters: list[Any], hand_over: HandOver | None = None, many: int | None = None) -> None:
        self._by_operator: dict[str, list[Any]] = {}
        self._finish: dict[str, Callable[[list[Any]], list[Any]]] = {}
        self._dead_letters = dead_letters
        self._hand_over = hand_over
        self._many = HAND_OVER_COUNT if many is None else many

    def of(self, operator: str) -> list[Any]:
        """A list that stays the same for the life of the buffer, so that compiled code may hold its `append`."""
        return self._by_operator.setdefault(operator, [])

    def finishes(self, operator: str, finish: Callable[[list[Any]], list[Any]]) -> None:
        """Let the outputs of an operator pass through a function as they leave."""
        self._finish[operator] = finish

    def __len__(self) -> int:
        return sum(map(len, self._by_operator.values())) + len(self._dead_letters)

    def drain(self) -> Iterator[tuple[str, list[Any]]]:
        """Remove and yield the outputs, by operator."""
        for operator, outputs in (*self._by_operator.items(), (DEAD_LETTERS, self._dead_letters)):
            if outputs:
                taken = outputs.copy()
                outputs.clear()
                finish = self._finish.get(operator)
                yield operator, taken if finish is None else finish(taken)

    def hand_over_if_many(self) -> None:
        """Empty the buffer in the middle of a firing, if there is much and the engine takes outputs then."""
        if len(self) >= self._many:
            self.hand_over()

    def hand_over(self) -> int:
        """Empty the buffer in the middle of a firing, if the engine takes outputs then. Returns about how many bytes
        the values of these records had; those of messages for a sink are not known."""
        size = 0
        if self._hand_over is not None:
            for operator, outputs in self.drain():
                size += _size_of(outputs)
                self._hand_over(operator, outputs)
        return size


def _size_of(outputs: list[Any]) -> int:
    """About how many bytes the values of records have, by those of some."""
    some = outputs[:: max(1, len(outputs) // _SAMPLES)]
    return sum(len(one[1] or b"") for one in some if one.__class__ is tuple) * len(outputs) // len(some)

"""Cells: what one message gives rise to in a stage with asynchronous operators, held back until all of it is there.

A message enters the stage and gets a cell. Its outputs and changes of state gather there, while calls are under way;
when the last has come back they are released together, or dropped together if one of them failed.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

Effect = tuple[str, Callable[..., None], tuple[Any, ...]]
"""What a message does once it is released: the operator, a function, its arguments."""


class Cell:
    """One message under way. `watermark` is the one it met when it came; `where` tells which message or pane it is."""

    __slots__ = ("done", "effects", "failed", "pending", "watermark", "where")

    def __init__(self, watermark: int, where: tuple[Any, ...]) -> None:
        self.watermark = watermark
        self.where = where
        self.pending = 1
        self.failed = False
        self.done = False
        self.effects: list[Effect] = []


class Cells:
    """The messages of a task that are under way, in the order they came.

    `landed(where)` is called for each message that has landed, `fail(cell, error, operator)` if an effect raises, and
    `moved()` when the oldest one is another.
    """

    def __init__(
        self,
        landed: Callable[[tuple[Any, ...]], None],
        fail: Callable[[Cell, BaseException, str], None],
        moved: Callable[[], None],
    ) -> None:
        self._landed = landed
        self._fail = fail
        self._moved = moved
        self._under_way: deque[Cell] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def open(self, watermark: int, where: tuple[Any, ...]) -> Cell:
        cell = Cell(watermark, where)
        self._under_way.append(cell)
        return cell

    def floor(self) -> int | None:
        """The watermark that the oldest message under way met; None if there is none."""
        return self._under_way[0].watermark if self._under_way else None

    def close(self, cell: Cell) -> None:
        """One branch of the message has ended; with the last, release what it gathered."""
        cell.pending -= 1
        if cell.pending:
            return
        if not cell.failed:
            self._release(cell)
        cell.done = True
        self._landed(cell.where)
        if self._under_way[0] is cell:
            while self._under_way and self._under_way[0].done:
                self._under_way.popleft()
            self._moved()

    def _release(self, cell: Cell) -> None:
        # State first: it may fail, and then the outputs stay back as well.
        for operator, apply, arguments in sorted(cell.effects, key=_is_output):
            try:
                apply(*arguments)
            except Exception as error:
                self._fail(cell, error, operator)
                return


def _is_output(effect: Effect) -> bool:
    return len(effect[2]) == 1

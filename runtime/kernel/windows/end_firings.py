"""Windows that have fired at the end of input, before their time: a later run fires them again only if they changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..time.bounds import START
from ..time.position import Position


@dataclass(slots=True)
class EndFiring:
    """The last firing of an operator at an end of input. `upto` is the greatest end of the windows that fired there
    and are kept; START for none."""

    upto: int = START


class EndFirings:
    """The end firings of a task's windows, by operator."""

    def __init__(self, before: Position) -> None:
        self._before: Mapping[str, int] = before.fired_at_end
        self._now: dict[str, EndFiring] = {}

    def of(self, operator: str) -> EndFiring:
        """The end firing of an operator, which the operator updates."""
        return self._now.setdefault(operator, EndFiring(self._before.get(operator, START)))

    def add_to(self, position: Position) -> None:
        """Add the end firings to a position; those of operators that the stage no longer has are kept."""
        now = {operator: firing.upto for operator, firing in self._now.items()}
        known = {**self._before, **now}
        position.fired_at_end = {operator: upto for operator, upto in known.items() if upto > START}

"""Windows whose lateness has grown: those that were forgotten by then stay so."""

from collections.abc import Mapping, Sequence

from ..time.bounds import START
from ..time.position import Position


class Lateness:
    """The lateness of a task's windows, now and at the last commit.

    A window that was forgotten under a smaller lateness must not begin anew with what comes now: its pane would take
    the place of the whole one.
    """

    def __init__(self, before: Position) -> None:
        self._before = before
        self._now: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}

    def forgotten(self, operator: str, lateness: int, watermark: int) -> int:
        """Up to which end the windows of an operator are forgotten, whatever its lateness is now; START for none.
        `watermark` is where it stood at the last commit."""
        self._now[operator] = lateness
        before = self._before.lateness.get(operator, lateness)
        end = self._before.forgotten.get(operator, START)
        if lateness > before and watermark > START:
            end = max(end, watermark - before)
        self._forgotten[operator] = end
        return end

    def add_to(self, position: Position, watermarks: Sequence[int], nodes: Mapping[str, int]) -> None:
        """Add to a position what is to be remembered: what the watermark alone does not make late."""
        gone = {operator: end for operator, end in self._before.forgotten.items() if operator not in self._now}
        position.lateness = {**self._before.lateness, **self._now}
        position.forgotten = gone | {
            operator: end
            for operator, end in self._forgotten.items()
            if end > START and end + self._now[operator] > watermarks[nodes[operator]]
        }

"""Windows whose lateness was increased: what they had forgotten before stays forgotten."""

from collections.abc import Mapping, Sequence

from ..time.bounds import START
from ..time.position import Position


class Lateness:
    """The lateness of a task's windows, now and at the last commit.

    A window that was forgotten under a smaller lateness must not start again with a late message: its pane would
    replace the complete one.
    """

    def __init__(self, before: Position) -> None:
        self._before = before
        self._now: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}

    def forgotten(self, operator: str, lateness: int, watermark: int) -> int:
        """The end up to which the windows of an operator are forgotten, whatever its lateness is now; START for none.
        `watermark` is that of the last commit."""
        self._now[operator] = lateness
        before = self._before.lateness.get(operator, lateness)
        end = self._before.forgotten.get(operator, START)
        if lateness > before and watermark > START:
            end = max(end, watermark - before)
        self._forgotten[operator] = end
        return end

    def add_to(self, position: Position, watermarks: Sequence[int], nodes: Mapping[str, int]) -> None:
        """Add the lateness to a position, and the ends up to which windows are forgotten and not late anyway."""
        gone = {operator: end for operator, end in self._before.forgotten.items() if operator not in self._now}
        position.lateness = {**self._before.lateness, **self._now}
        position.forgotten = gone | {
            operator: end
            for operator, end in self._forgotten.items()
            if end > START and end + self._now[operator] > watermarks[nodes[operator]]
        }

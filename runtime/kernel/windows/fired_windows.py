"""What windows have fired apart from what the watermark tells: at an end of input, and in a firing that has paused."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..time.bounds import START
from ..time.position import Cursor, Position


@dataclass(slots=True)
class FiredWindows:
    """What a windowed operator has fired.

    `at_end` is the greatest end of the windows that fired at an end of input, before their time, and are kept; START
    for none. `cursor` is the last that fired in a firing which has paused: the end of the window, and the key. Windows
    up to `upto` may have fired before their time, so that the keys which change from now on are to be remembered.
    """

    at_end: int = START
    cursor: Cursor | None = None
    upto: int = START

    def __post_init__(self) -> None:
        self._set_upto()

    def _set_upto(self) -> None:
        # Not a property: it is read for each message.
        self.upto = self.at_end if self.cursor is None else max(self.at_end, self.cursor[0])

    def end(self, end: int) -> None:
        """All windows of that end have fired at an end of input."""
        self.at_end = max(self.at_end, end)
        self.complete(end)

    def has(self, end: int, key: bytes) -> bool:
        """Whether a firing that has paused had fired this window of a key, among those of that end."""
        return self.cursor is not None and self.cursor[0] == end and key <= self.cursor[1]

    def pause(self, end: int, key: bytes) -> None:
        """A firing pauses behind this window of a key, which may lie before the cursor if it has changed since."""
        self.cursor = (end, key) if self.cursor is None else max(self.cursor, (end, key))
        self._set_upto()

    def complete(self, end: int) -> None:
        """All windows of that end have fired."""
        if self.cursor is not None and self.cursor[0] <= end:
            self.cursor = None
        self._set_upto()


class FiredWindowsOfTask:
    """What the windows of a task have fired, by operator."""

    def __init__(self, before: Position) -> None:
        self._at_end: Mapping[str, int] = before.fired_at_end
        self._cursors: Mapping[str, Cursor] = before.cursors
        self._now: dict[str, FiredWindows] = {}

    def of(self, operator: str) -> FiredWindows:
        """What an operator has fired, which the operator updates."""
        fired = FiredWindows(self._at_end.get(operator, START), self._cursors.get(operator))
        return self._now.setdefault(operator, fired)

    def add_to(self, position: Position) -> None:
        """Add it to a position; what operators have fired that the stage no longer has stays."""
        at_end = {operator: fired.at_end for operator, fired in self._now.items()}
        position.fired_at_end = {id: end for id, end in {**self._at_end, **at_end}.items() if end > START}
        cursors = {operator: fired.cursor for operator, fired in self._now.items()}
        position.cursors = {id: one for id, one in {**self._cursors, **cursors}.items() if one is not None}

"""Whether a run moves, told from what it says of itself and from how long it has said nothing."""

from ..report import Histogram, Progress

MOVES = frozenset(("messages_read", "messages_processed", "messages_written", "commits", "restored_records"))
"""Metrics of which one grows when a run moves."""
WAITS = frozenset(
    ("lag_messages", "messages_queued", "messages_in_flight", "calls_in_flight", "restore_remaining_records")
)
"""Metrics of which one is above 0 when there is something to do."""


class Health:
    """Watches a run through what it tells. Times are in seconds of one clock."""

    def __init__(self) -> None:
        self._moved_at: float | None = None
        self._moves: float = -1.0
        self.ready = False

    def begin(self, now: float) -> None:
        """A run begins."""
        self._moved_at = now

    def look(self, progress: Progress, now: float) -> None:
        """Take in what a run has told at this moment."""
        self.ready = progress.phase == "running"
        moves = _sum(progress, MOVES)
        if moves != self._moves or not _sum(progress, WAITS) or progress.phase == "done":
            self._moved_at = now
        self._moves = moves

    def end(self) -> None:
        """The run has ended: nothing is waited for any more."""
        self._moved_at, self.ready = None, False

    def stalled(self, now: float) -> float:
        """Seconds for which nothing has moved while there was something to do, or for which nothing was told."""
        return 0.0 if self._moved_at is None else now - self._moved_at


def _sum(progress: Progress, names: frozenset[str]) -> float:
    found = (sample.value for sample in progress.facts if sample.metric in names)
    return sum(value for value in found if not isinstance(value, Histogram))

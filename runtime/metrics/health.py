"""Whether a run makes progress, by its samples and by the time since its last report."""

from ..report import Histogram, Progress

MOVES = frozenset(
    ("messages_read", "messages_processed", "messages_written", "commits", "restored_records", "batch_tasks_done")
)
"""Metrics of which at least one changes while a run makes progress."""
IN_FLIGHT = frozenset(("messages_in_flight",))
"""A metric that changes, too, as messages land for which a commit waits: none is processed, or committed, meanwhile."""
WAITS = frozenset(
    (
        "lag_messages",
        "messages_queued",
        "messages_in_flight",
        "calls_in_flight",
        "restore_remaining_records",
        "batch_tasks",
    )
)
"""Metrics of which at least one is above 0 while there is work to do."""
LIMITS = frozenset(("limit_holds", "breaker_open"))
"""Metrics of which one is above 0 while work waits for what a service allows or for its recovery, which
is no stall."""


class Health:
    """Whether a run is ready, and for how long it has stalled. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._moved_at: float | None = None
        self._moves = (-1.0, 0.0)
        self.ready = False

    def begin(self, now: float) -> None:
        """Begin a run at `now`, in seconds: without a first report it is stalled from there on."""
        self._moved_at = now

    def update(self, progress: Progress, now: float) -> None:
        """Update with the progress that a run reports at this moment."""
        self.ready = progress.phase == "running"
        moves = _sum(progress, MOVES), _sum(progress, IN_FLIGHT)
        waits = _sum(progress, WAITS) and not _sum(progress, LIMITS)
        if moves != self._moves or not waits or progress.phase == "done":
            self._moved_at = now
        self._moves = moves

    def end(self) -> None:
        """End the run: from now on it cannot stall."""
        self._moved_at, self.ready = None, False

    def stalled(self, now: float) -> float:
        """Seconds without progress while there was work to do, or without a report."""
        return 0.0 if self._moved_at is None else now - self._moved_at


def _sum(progress: Progress, names: frozenset[str]) -> float:
    values = (sample.value for sample in progress.facts if sample.metric in names)
    return sum(value for value in values if not isinstance(value, Histogram))

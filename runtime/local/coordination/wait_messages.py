"""Log messages of a container that waits for other containers of its run."""

import logging
from collections.abc import Callable

from .membership import MembershipGuard

WAIT_SECONDS = 10.0
"""Seconds until the first message that a container waits; the time between two messages doubles."""

_log = logging.getLogger(__name__)


class WaitReporter:
    """Logs which containers a container waits for, for how long, and when it gives up (ADR 0018).

    Call `report` about once a second. `limit` is the time in seconds after which the run gives up on containers that
    have not started, None for a run without an end, which never does.
    """

    def __init__(self, guard: MembershipGuard | None, limit: float | None, clock: Callable[[], float]) -> None:
        self._guard = guard
        self._limit = limit
        self._absent_since: float | None = clock()
        self._next = WAIT_SECONDS

    def absent(self) -> str:
        """The containers that have not started in this run, as text; empty if all have."""
        guard = self._guard
        numbers = () if guard is None else guard.absent
        if guard is None or not numbers:
            return ""
        names = ", ".join(map(str, numbers))
        word, verb = ("container", "has") if len(numbers) == 1 else ("containers", "have")
        containers = guard.membership.containers if guard.assignment is None else guard.assignment.containers
        return f"{word} {names} of {containers}, which {verb} not started in this run"

    def report(self, now: float, moved_at: float) -> None:
        """Log what the container waits for, if a message is due. It has made no progress since `moved_at`."""
        absent = self.absent()
        if not absent:
            self._absent_since = None
        elif self._absent_since is None:  # a run that goes on has got more containers
            self._absent_since = now
        since = moved_at if self._absent_since is None else self._absent_since
        if absent or (self._limit is not None and self._unfinished()):
            waited = now - since
            if waited >= self._next:
                self._next = 2 * waited
                self._log_wait(absent or self._unfinished(), waited, gives_up=bool(absent))
        else:
            self._next = WAIT_SECONDS

    def _unfinished(self) -> str:
        others = () if self._guard is None else self._guard.unfinished
        return ", ".join(f"container {other.container} ({other.process})" for other in others)

    def _log_wait(self, containers: str, waited: float, *, gives_up: bool) -> None:
        assert self._guard is not None
        member = self._guard.membership
        patience = "for as long as that takes"
        if gives_up and self._limit is not None:
            patience = f"until nothing has moved for {self._limit:g} s"
        _log.warning(
            "container %d waits for %s: %.0f s so far, %s\n"
            "  to do: start each container that does not run, with the same number of containers",
            member.container,
            containers,
            waited,
            patience,
        )

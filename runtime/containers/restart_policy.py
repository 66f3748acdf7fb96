"""The policy by which containers that died are restarted."""

from collections import deque

# Short, since messages wait meanwhile; after six restarts in a row it has come to the longest.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
"""The pause before a restart, in seconds; it doubles from restart to restart, up to the longest."""
STEADY_SECONDS = 10.0
"""After a container has worked for so long, its next restart has the first pause again."""
WINDOW_SECONDS = 600.0
"""Deaths within so many seconds of work count together, so one a day is never too often."""


class RestartPolicy:
    """Restarts of one container: at most `most` in ten minutes of its work, with growing pauses. The time in which it
    starts is not counted: a container that dies as soon as it is up uses up its restarts, however slow its starts are.

    >>> restarts = RestartPolicy(most=2)
    >>> [restarts.pause(worked=0.1) for _ in range(3)]
    [0.2, 0.4, None]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._worked = 0.0
        self._deaths: deque[float] = deque()
        self._in_a_row = 0

    def pause(self, worked: float) -> float | None:
        """The pause in seconds before the restart of a container that has died and had `worked` so long; None if it has
        died too often."""
        self._worked += worked
        self._deaths.append(self._worked)
        while self._deaths[0] < self._worked - WINDOW_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > self._most:
            return None
        self._in_a_row = 0 if worked >= STEADY_SECONDS else self._in_a_row + 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** max(0, self._in_a_row - 1))

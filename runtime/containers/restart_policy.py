"""The policy by which containers that died are restarted."""

from collections import deque

# Short, since messages wait meanwhile; after six restarts in a row it has come to the longest.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
"""The pause before a restart, in seconds; it doubles from restart to restart, up to the longest."""
STEADY_SECONDS = 10.0
"""After a container has lived for so long, its next restart has the first pause again."""
# Ten quick deaths take 53 s with the pauses between them, so they count together; one a day never adds up.
WINDOW_SECONDS = 600.0


class RestartPolicy:
    """Restarts of one container: at most `most` in ten minutes, with growing pauses.

    >>> restarts = RestartPolicy(most=2)
    >>> [restarts.pause(lived=0.1, now=now) for now in (1.0, 2.0, 3.0)]
    [0.2, 0.4, None]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._deaths: deque[float] = deque()
        self._in_a_row = 0

    def pause(self, lived: float, now: float) -> float | None:
        """The pause in seconds before the restart of a container that died at `now` and had `lived` so long; None if it
        has died too often."""
        self._deaths.append(now)
        while self._deaths[0] < now - WINDOW_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > self._most:
            return None
        self._in_a_row = 0 if lived >= STEADY_SECONDS else self._in_a_row + 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** max(0, self._in_a_row - 1))

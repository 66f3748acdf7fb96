"""When a container that died is started again."""

from collections import deque

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
"""Seconds before a restart; each is twice as long as the one before it, up to the longest."""
STEADY_SECONDS = 10.0
"""A container that has lived this long starts over with the first pause."""
WINDOW_SECONDS = 600.0


class Restarts:
    """The restarts of one container, at most `most` in ten minutes.

    >>> restarts = Restarts(most=2)
    >>> [restarts.pause(lived=0.1, now=now) for now in (1.0, 2.0, 3.0)]
    [0.2, 0.4, None]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._deaths: deque[float] = deque()
        self._in_a_row = 0

    def pause(self, lived: float, now: float) -> float | None:
        """It died at `now` after it had lived so long: seconds until it is to be started again, None for never."""
        self._deaths.append(now)
        while self._deaths[0] < now - WINDOW_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > self._most:
            return None
        self._in_a_row = 0 if lived >= STEADY_SECONDS else self._in_a_row + 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** max(0, self._in_a_row - 1))

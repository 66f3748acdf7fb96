"""A histogram of durations, such as those of commits."""

from bisect import bisect_left

from ..report import Histogram
from .definitions import SECONDS


class Timing:
    """Durations in seconds, counted by the bounds of `SECONDS`.

    >>> timing = Timing()
    >>> timing.add(0.002)
    >>> timing.histogram.counts[:3], timing.histogram.total
    ((0, 1, 0), 0.002)
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration, in seconds."""
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._total += seconds

    @property
    def histogram(self) -> Histogram:
        """The durations counted so far."""
        return Histogram(tuple(self._counts), self._total)

"""The axis: the x of each time, and the times that have a tick."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from .figure import AxisTick

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(digit * power for power in (1, 10, 100) for digit in (1, 2, 5)),
    *(number * _SECOND for number in (1, 2, 5, 10, 15, 30)),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
_UNITS = ((_DAY, "days"), (_HOUR, "hours"), (_MINUTE, "minutes"), (_SECOND, "seconds"), (1, "milliseconds"))
# Labels such as 23:59:59 have to stand side by side on what names and keys leave of 700 pixels.
_MOST_TICKS = 8
_NEAR = 0.34
"""The axis begins at zero if the first time is at most this share of the last one."""
_DATES = 10 * _DAY
"""From this time on, ticks show the time of day, not the time since the epoch."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Times from `first` to `last`, both in ms, between two places in pixels; a tick `every` so many ms."""

    first: int
    last: int
    every: int
    left: float
    right: float

    def x(self, time: int) -> float:
        """The x of a time; a time outside has that of the nearer end."""
        share = (min(max(time, self.first), self.last) - self.first) / (self.last - self.first)
        return round(self.left + share * (self.right - self.left), 1)

    @property
    def unit(self) -> str:
        """The unit of the labels of ticks, or their date."""
        if self.first >= _DATES:
            return f"UTC, {datetime.fromtimestamp(self.first / 1000, UTC):%Y-%m-%d}"
        return next(name for size, name in _UNITS if self.every % size == 0)

    def ticks(self) -> Iterator[AxisTick]:
        """From `first` to `last`, both included, since an axis begins and ends at a tick."""
        for time in range(self.first, self.last + 1, self.every):
            yield AxisTick(self.x(time), self._label(time))

    def _label(self, time: int) -> str:
        if self.first >= _DATES:
            shown = datetime.fromtimestamp(time / 1000, UTC)
            return f"{shown:%H:%M}" if self.every % _MINUTE == 0 else f"{shown:%H:%M:%S}"
        size = next(size for size, _ in _UNITS if self.every % size == 0)
        return str(time // size)


def axis_of(times: Iterable[int], left: float, right: float) -> Axis:
    """An axis that contains all these times, and begins and ends at a tick.

    >>> axis = axis_of([1000, 12_000], 0, 100)
    >>> axis.first, axis.last, axis.every, axis.unit
    (0, 12000, 2000, 'seconds')
    """
    known = list(times) or [0]
    least, most = min(known), max(known)
    if 0 < least <= _NEAR * most:
        least = 0
    every = next((step for step in _STEPS if (most - least) / step <= _MOST_TICKS - 1), _STEPS[-1])
    first = least - least % every
    last = max(most + -most % every, first + every)
    return Axis(first, last, every, left, right)

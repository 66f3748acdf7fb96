"""What is to be reached, and what was: a line for each on the terminal, and in the documentation."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

from msgspec import Struct

from benchmarks.results import Figures

Bound = Literal["at least", "at most"]


class Goal(Struct, frozen=True, kw_only=True):
    """A figure, and what it is to be `at least` or `at most`. `samples` are those of which it is the median."""

    what: str
    bound: Bound
    limit: float
    measured: float
    unit: str = ""
    samples: Sequence[float] = ()

    @property
    def reached(self) -> bool:
        """Whether it is what it is to be."""
        return self.measured >= self.limit if self.bound == "at least" else self.measured <= self.limit

    def told(self) -> str:
        """As a line: what was measured, and what was to be."""
        sign = "" if self.reached else "; NOT REACHED"
        return f"{self.what}: {self.figure(self.measured)} ({self.bound} {self.figure(self.limit)}{sign})"

    def figure(self, number: float) -> str:
        """A number in its unit."""
        return f"{number:,.2f}".rstrip("0").rstrip(".") + (f" {self.unit}" if self.unit else "")


def median_goal(what: str, bound: Bound, limit: float, samples: Sequence[float], unit: str = "") -> Goal:
    """A goal for the median of some figures."""
    middle = round(median(samples), 3)
    return Goal(what=what, bound=bound, limit=limit, measured=middle, unit=unit, samples=samples)


class Judged(Figures, frozen=True, kw_only=True):
    """What came of a measurement. `small` says that it was no more than tried out, `noise` is the share of the machine
    that others used, and `problem` says what was wrong with the output."""

    small: bool
    noise: float
    output_correct: bool
    problem: str = ""
    goals: Sequence[Goal]

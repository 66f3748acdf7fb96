"""When messages landed in the output, and how long each took: percentiles, gaps, and what was doubled or is missing."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from msgspec import Struct


class Landing(Struct, frozen=True, gc=False):
    """A message of the output: the number and the task of the message that it is of, when that was produced and when
    it was in the broker, in ms since epoch; whether the state that it saw was right."""

    number: int
    task: int
    produced: int
    landed: int
    right: bool = True

    @property
    def took(self) -> int:
        """Its latency in ms."""
        return self.landed - self.produced


class Second(Struct, frozen=True):
    """Latencies in ms of the messages that were produced in a second; `second` counts from the begin."""

    second: int
    p50: int
    p99: int


def percentile(values: Collection[int], percent: int) -> int:
    """The least value that so many in a hundred are not above.

    >>> percentile(range(1, 101), 99), percentile([7], 50)
    (99, 7)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def split(landings: Iterable[Landing], tasks: Collection[int]) -> tuple[list[Landing], list[Landing]]:
    """Those of some tasks, and those of the others."""
    of, others = list[Landing](), list[Landing]()
    for landing in landings:
        (of if landing.task in tasks else others).append(landing)
    return of, others


def between(landings: Iterable[Landing], first: int, last: int) -> list[Landing]:
    """Those of the messages that were produced from one time to another, in ms since epoch."""
    return [landing for landing in landings if first <= landing.produced < last]


def by_second(landings: Iterable[Landing], begun: int) -> list[Second]:
    """The percentiles of each second in which there were messages."""
    took: dict[int, list[int]] = {}
    for landing in landings:
        took.setdefault((landing.produced - begun) // 1000, []).append(landing.took)
    return [Second(at, percentile(found, 50), percentile(found, 99)) for at, found in sorted(took.items())]


def longest_gap(landings: Iterable[Landing], first: int, last: int) -> int:
    """The longest time in ms, in any task, in which nothing of it landed, of those that overlap with a time."""
    by_task: dict[int, list[int]] = {}
    for landing in landings:
        by_task.setdefault(landing.task, []).append(landing.landed)
    gaps = (
        later - earlier
        for times in by_task.values()
        for earlier, later in pairwise(sorted(times))
        if later > first and earlier < last
    )
    return max(gaps, default=0)


def problem(landings: Sequence[Landing], sent: int, *, once: bool) -> str:
    """What is wrong with the output of so many messages, numbered from 0, and empty if nothing is. Where each must be
    there `once`, none may have been doubled."""
    counts = Counter(landing.number for landing in landings)
    missing = sent - sum(number in counts for number in range(sent))
    doubled = sum(count - 1 for count in counts.values()) if once else 0
    wrong = sum(not landing.right for landing in landings)
    found = {"missing": missing, "doubled": doubled, "of a wrong state": wrong, "unknown": len(counts) - sent + missing}
    return ", ".join(f"{count:,} {name}" for name, count in found.items() if count)

"""The autosizer that we use by default: by the time in which tasks are busy."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from ...dsl.errors import UsageError
from ...dsl.text import plural
from ...dsl.validation import require
from .autosizer import SizeDecision
from .run_load import RunLoad, RunSize, SizeBounds
from .size_search import SizeSearch
from .task_needs import TaskNeed, behind, needs_of, shares_by_number

# The rest is for loads that rise faster than a container starts, and for the pauses of commits.
UTILIZATION = 0.7
CATCH_UP = timedelta(minutes=5)
FULL_CALLS = 0.9
"""From this fraction of the calls that may be in flight on, they are what a task waits for."""
# From about a third of its time on, commits are what a task waits for that is behind.
MUCH_COMMITTING = 0.3
# Below the whole: what a container takes rises between two decisions, and the system kills one that takes all.
FULL_MEMORY = 0.9
MOST_UNEVEN = 2.0
"""Containers that are more uneven than that have been measured at a bad moment, or have a task that is too large."""


class BusyTimeAutosizer:
    """Decides by the time in which tasks are busy.

    What a task processes in the time in which it is busy tells what it could process. It is to process what arrives,
    with what its writers let through once they keep up, and within `catch_up` what waits. The run gets the least number
    of containers in which none is busier than `utilization`, a fraction of its time, and the least elasticity that
    allows it. More containers are added as soon as one is busier than half of the rest above that. Fewer are kept once
    they have been enough for `scale_down_after`. After a change nothing is decided for `cool_down`.

    No containers are added for tasks that wait for others: for remote calls, of which as many are in flight as may be,
    for commits, or for the processors of the machine.

    Raises UsageError for a wrong argument.

    >>> autosizer = BusyTimeAutosizer(utilization=0.6, catch_up=timedelta(minutes=2))
    """

    def __init__(
        self,
        *,
        utilization: float = UTILIZATION,
        catch_up: timedelta = CATCH_UP,
        scale_down_after: timedelta = timedelta(minutes=5),
        cool_down: timedelta = timedelta(minutes=1),
    ) -> None:
        valid = isinstance(utilization, int | float) and 0.1 <= utilization <= 0.95
        wrong = f"utilization={utilization!r}"
        require(valid, UsageError, wrong, "a fraction of time, 0.1 to 0.95", "write utilization=0.7")
        for name, value in (("catch_up", catch_up), ("scale_down_after", scale_down_after), ("cool_down", cool_down)):
            valid, wrong = isinstance(value, timedelta) and value > timedelta(0), f"{name}={value!r}"
            require(valid, UsageError, wrong, "a timedelta above 0", f"write {name}=timedelta(minutes=5)")
        self._utilization = utilization
        self._most = utilization + (1 - utilization) / 2
        self._catch_up = catch_up.total_seconds()
        self._scale_down_after, self._cool_down = scale_down_after.total_seconds(), cool_down.total_seconds()
        self._size: RunSize | None = None
        self._changed_at = float("-inf")
        self._enough: deque[tuple[float, RunSize]] = deque()

    def decide(self, load: RunLoad, bounds: SizeBounds) -> SizeDecision:
        """The size that the run is to have from now on."""
        needs, bounds = needs_of(load, self._catch_up), _useful(load, bounds)
        search, fewest = _search(load, needs, bounds), _fewest(load, bounds)
        busiest = max(search.busiest(load.size), _busiest(needs))
        self._note(load, search.least(self._utilization, _least_elasticity(load, bounds), fewest))
        shown = f"the busiest container needs {busiest:.0%} of its time to keep up"
        if load.at - self._changed_at < self._cool_down:
            return SizeDecision(load.size, f"{shown}; it has just changed")
        if busiest > self._most or max(fewest, bounds.containers[0]) > load.size.containers:
            return self._larger(load, search, fewest, shown)
        if waits := _waits(load, needs):
            return SizeDecision(load.size, f"{shown}; {waits}")
        return self._smaller(load, search, shown)

    def _note(self, load: RunLoad, enough: RunSize) -> None:
        """Remember the size that is enough at the moment, for as long as a smaller one has to be enough."""
        if load.size != self._size:
            if self._size is not None:
                self._changed_at = load.at
            self._size = load.size
            self._enough.clear()
        self._enough.append((load.at, enough))
        while len(self._enough) > 1 and self._enough[1][0] <= load.at - self._scale_down_after:
            self._enough.popleft()

    def _larger(self, load: RunLoad, search: SizeSearch, fewest: int, shown: str) -> SizeDecision:
        """A larger size, unless that would not help."""
        size = search.least(self._utilization, load.size.elasticity, max(fewest, load.size.containers))
        if fewest > load.size.containers:
            shown = f"the containers take {FULL_MEMORY:.0%} or more of the memory that they may take; {shown}"
        if size == load.size:
            return SizeDecision(size, f"{shown}; not more, as {_why_not_larger(search, size)}")
        return SizeDecision(size, f"{shown}; {_load_with(search, size)}")

    def _smaller(self, load: RunLoad, search: SizeSearch, shown: str) -> SizeDecision:
        """A smaller size, if one has been enough for long."""
        stays = SizeDecision(load.size, shown)
        since = load.at - self._enough[0][0]
        if since < self._scale_down_after or any(one.containers >= load.size.containers for _, one in self._enough):
            return stays
        # Not by what was measured while the load went down.
        recent = [one for at, one in self._enough if at >= load.at - self._scale_down_after / 2]
        elasticity = _merged(load.size, recent)
        for containers in range(max(one.containers for one in recent), load.size.containers):
            size = RunSize(containers, elasticity)
            if search.busiest(size) <= self._utilization:
                return SizeDecision(size, f"{shown}; {_load_with(search, size)}")
        return stays


def _merged(now: RunSize, enough: Sequence[RunSize]) -> dict[str, int]:
    """The elasticity of a smaller size. To merge tasks takes a pause, and where little was split it saves little."""
    needed = {stage: max(one.elasticity[stage] for one in enough) for stage in now.elasticity}
    return {stage: needed[stage] if factor >= 4 * needed[stage] else factor for stage, factor in now.elasticity.items()}


def _useful(load: RunLoad, bounds: SizeBounds) -> SizeBounds:
    """The bounds, without containers for which there would be no processor time."""
    busy = sum(one.busy for one in load.containers.values())
    taken = sum(one.processor for one in load.containers.values())
    if bounds.processors is None or not busy or not taken:
        return bounds
    least, most = bounds.containers
    useful = math.ceil(bounds.processors / min(1.0, taken / busy))
    return replace(bounds, containers=(least, max(least, min(most, useful))))


def _search(load: RunLoad, needs: Mapping[str, TaskNeed], bounds: SizeBounds) -> SizeSearch:
    shares = shares_by_number(needs)
    even = SizeSearch(shares, 1.0, bounds, load.whole).busiest(load.size)
    uneven = min(MOST_UNEVEN, max(1.0, _busiest(needs) / even)) if even else 1.0
    return SizeSearch(shares, uneven, bounds, load.whole)


def _busiest(needs: Mapping[str, TaskNeed]) -> float:
    """What the busiest container needs of its time, as its tasks are now."""
    shares: Counter[int] = Counter()
    for need in needs.values():
        shares[need.task.container] += need.share  # type: ignore[assignment]
    return max(shares.values(), default=0.0)


def _least_elasticity(load: RunLoad, bounds: SizeBounds) -> dict[str, int]:
    return {stage: 1 if stage in load.whole else bounds.elasticity[0] for stage in load.size.elasticity}


def _fewest(load: RunLoad, bounds: SizeBounds) -> int:
    """The containers that the memory of all needs, where one may have so much."""
    if bounds.memory is None:
        return 1
    used = sum(one.memory or 0 for one in load.containers.values())
    return math.ceil(used / (FULL_MEMORY * bounds.memory))


def _waits(load: RunLoad, needs: Mapping[str, TaskNeed]) -> str:
    """What tasks that are behind wait for, as text, where it is not for their container; empty if none is behind."""
    late = next(behind(needs), None)
    if late is None:
        return ""
    stage, container = late.task.stage, load.containers[late.task.container]
    if late.task.calls >= FULL_CALLS:
        return f"stage {stage} waits for its calls, of which as many are in flight as may be"
    if container.committing >= MUCH_COMMITTING:
        return f"stage {stage} is behind, and its container commits for {container.committing:.0%} of its time"
    return f"stage {stage} is behind, and not for want of time"


def _load_with(search: SizeSearch, size: RunSize) -> str:
    split = ", ".join(f"{stage} split by {factor}" for stage, factor in size.elasticity.items() if factor > 1)
    return f"with {plural(size.containers, 'container')}{', ' * bool(split)}{split} {search.busiest(size):.0%}"


def _why_not_larger(search: SizeSearch, size: RunSize) -> str:
    hottest = max((one for stage in search.shares.values() for _, one in stage.values()), default=0.0)
    if hottest > search.busiest(size) / 2:
        return f"one key needs {hottest:.0%} of a container, and cannot be split"
    if search.bounds.processors is not None and search.bounds.containers[1] == size.containers:
        return f"that is all that is allowed, or that {plural(search.bounds.processors, 'processor')} can work for"
    return "that would be beyond the bounds, or would not help"

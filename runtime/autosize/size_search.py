"""Finds the least size of a run in which no container is busier than it should be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from .run_load import RunSize, SizeBounds

Shares = Mapping[str, Mapping[int, tuple[float, float]]]
"""Of each stage and number of its tasks, the share of a container's time that its key buckets need together, and the
largest that is for one key."""

ENOUGH = 0.02
"""A larger size is not worth it where it saves less of a container's time than this."""


@dataclass(frozen=True, slots=True)
class SizeSearch:
    """What a search knows: the shares that tasks need, how uneven containers are, and what is allowed."""

    shares: Shares
    uneven: float
    bounds: SizeBounds
    whole: frozenset[str] = frozenset()

    def busiest(self, size: RunSize) -> float:
        """The fraction of time in which the busiest container would be busy."""
        return max(
            self.uneven * self._even(size), max((self._largest(stage, size) for stage in self.shares), default=0)
        )

    def least(self, utilization: float, elasticity: Mapping[str, int], fewest: int) -> RunSize:
        """The least number of containers, `fewest` or more, of which none is busier than that, with as little splitting
        as that allows: `elasticity` is where it begins. The size with the least load where no number is enough."""
        low, high = self.bounds.containers
        best: tuple[float, RunSize] | None = None
        for containers in range(max(low, min(high, fewest)), high + 1):
            size = self._split(containers, utilization, elasticity)
            busiest = self.busiest(size)
            if busiest <= utilization:
                return size
            if best is None or busiest < best[0] - ENOUGH:
                best = busiest, size
        assert best is not None
        return best[1]

    def _split(self, containers: int, utilization: float, elasticity: Mapping[str, int]) -> RunSize:
        """The size with so many containers in which tasks are split as far as is needed."""
        size = RunSize(containers, dict(elasticity))
        while self.busiest(size) > utilization:
            larger = {stage: self._doubled(size, stage) for stage in self._divisible(size)}
            if not larger:
                break
            helps = min(larger, key=lambda stage: self.busiest(larger[stage]))
            if self.busiest(larger[helps]) > self.busiest(size) - ENOUGH:
                # None helps alone: stages with equally large tasks are to be split one after the other.
                helps = max(larger, key=partial(self._largest, size=size))
            size = larger[helps]
        return self._pruned(size, utilization, elasticity)

    def _pruned(self, size: RunSize, utilization: float, elasticity: Mapping[str, int]) -> RunSize:
        """The size without splits that do not help."""
        enough = max(utilization, self.busiest(size) + ENOUGH)
        for stage in size.elasticity:
            while size.elasticity[stage] > elasticity[stage]:
                less = RunSize(size.containers, {**size.elasticity, stage: size.elasticity[stage] // 2})
                if self.busiest(less) > enough:
                    break
                size = less
        return size

    def _divisible(self, size: RunSize) -> Iterator[str]:
        for stage, factor in size.elasticity.items():
            if stage not in self.whole and 2 * factor <= self.bounds.elasticity[1] and self.shares.get(stage):
                yield stage

    @staticmethod
    def _doubled(size: RunSize, stage: str) -> RunSize:
        return RunSize(size.containers, {**size.elasticity, stage: 2 * size.elasticity[stage]})

    def _largest(self, stage: str, size: RunSize) -> float:
        """The share of a container's time that the largest task of a stage needs."""
        factor = size.elasticity[stage]
        return max((max(share / factor, hottest) for share, hottest in self.shares[stage].values()), default=0.0)

    def _even(self, size: RunSize) -> float:
        """The load of the container with the most tasks, where all tasks of a stage are alike: its part of each stage,
        and of the tasks that are left over, which are dealt out evenly, those that need most."""
        load, over, left = 0.0, list[float](), 0
        for stage, numbers in self.shares.items():
            tasks = len(numbers) * size.elasticity[stage]
            each = sum(share for share, _ in numbers.values()) / tasks
            load += each * (tasks // size.containers)
            if tasks % size.containers:
                over.append(each)
                left += tasks % size.containers
        return load + sum(sorted(over, reverse=True)[: -(-left // size.containers)])

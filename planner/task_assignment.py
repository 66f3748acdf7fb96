"""The tasks of a plan, and their assignment to containers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, Self

from .plan import Plan, PlannedStage

_NAME = re.compile(r"(.*)/(\d+)(?:-(\d+)-(\d+))?")


class TaskId(NamedTuple):
    """Which task of a stage: its `number`, and with elasticity the key bucket of it, and of how many.

    >>> TaskId("visits-by-user", 3).name, TaskId("visits-by-user", 3, bucket=1, elasticity=4).name
    ('visits-by-user/3', 'visits-by-user/3-1-4')
    """

    stage: str
    number: int
    bucket: int = 0
    elasticity: int = 1

    @property
    def name(self) -> str:
        """The name of the task, under which its checkpoints and its store are kept."""
        return f"{self.stage}/{self.suffix}"

    @property
    def suffix(self) -> str:
        """The name within the stage: it stays when the stage is renamed."""
        return str(self.number) if self.elasticity == 1 else f"{self.number}-{self.bucket}-{self.elasticity}"

    def shares_keys(self, other: "TaskId") -> bool:
        """Whether some keys are of both tasks: they have one number, and one elasticity divides the other.

        >>> TaskId("clicks", 0, bucket=1, elasticity=2).shares_keys(TaskId("clicks", 0, bucket=3, elasticity=4))
        True
        """
        least = min(self.elasticity, other.elasticity)
        return self[:2] == other[:2] and self.bucket % least == other.bucket % least

    @classmethod
    @lru_cache(maxsize=1 << 14)
    def parse(cls, name: str) -> Self:
        """The task of a name. Raises ValueError for text that is no name of a task."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is no name of a task, such as 'clicks/0' or 'clicks/0-1-2'")
        stage, number, bucket, elasticity = match.groups()
        return cls(stage, int(number), int(bucket or 0), int(elasticity or 1))


class StageTasks(NamedTuple):
    """The tasks of a stage: its `numbers`, each split into so many key buckets by `elasticity`."""

    numbers: int
    elasticity: int = 1

    @property
    def total(self) -> int:
        """How many tasks there are: one for each number and key bucket."""
        return self.numbers * self.elasticity

    def of(self, stage: str) -> Iterator[TaskId]:
        """The tasks; those of one number follow each other."""
        for number in range(self.numbers):
            for bucket in range(self.elasticity):
                yield TaskId(stage, number, bucket, self.elasticity)


Stages = Mapping[str, StageTasks]
"""The tasks of each stage."""


def task_name(stage: str, number: int) -> str:
    """The name of a task without elasticity.

    >>> task_name("visits-by-user", 3)
    'visits-by-user/3'
    """
    return TaskId(stage, number).name


def stages_of(plan: Plan) -> Stages:
    """The tasks of each stage of a plan."""
    return {stage.id: StageTasks(stage.tasks, stage.elasticity) for stage in plan.stages}


def stages_with(tasks: Iterable[str]) -> Stages:
    """The tasks of each stage, out of the names of all of them.

    >>> stages_with(["clicks/0-0-2", "clicks/0-1-2", "by-user/0"])
    {'clicks': StageTasks(numbers=1, elasticity=2), 'by-user': StageTasks(numbers=1, elasticity=1)}
    """
    stages: dict[str, StageTasks] = {}
    for task in map(TaskId.parse, tasks):
        numbers = max(task.number + 1, stages.get(task.stage, StageTasks(0)).numbers)
        stages[task.stage] = StageTasks(numbers, task.elasticity)
    return stages


def numbers_of(stages: Stages) -> dict[str, int]:
    """How many numbers the tasks of each stage have: what stays when the elasticity changes."""
    return {stage: tasks.numbers for stage, tasks in stages.items()}


def by_number(tasks: Iterable[str]) -> dict[tuple[str, int], list[TaskId]]:
    """The tasks of each stage and number: those that have key buckets of the same partitions."""
    numbers: dict[tuple[str, int], list[TaskId]] = {}
    for task in map(TaskId.parse, tasks):
        numbers.setdefault(task[:2], []).append(task)
    return numbers


def is_whole(task: str, parts: Iterable[str]) -> bool:
    """Whether these tasks, which share no keys with each other, have all the keys of a task.

    >>> is_whole("clicks/0-0-2", ["clicks/0-0-4", "clicks/0-2-4"]), is_whole("clicks/0", ["clicks/0-0-2"])
    (True, False)
    """
    elasticity = TaskId.parse(task).elasticity
    return sum(elasticity / TaskId.parse(part).elasticity for part in parts) == 1


def tasks_in(stage: PlannedStage) -> list[TaskId]:
    """The tasks of one stage; those of one number follow each other."""
    return [*StageTasks(stage.tasks, stage.elasticity).of(stage.id)]


def tasks_of(stages: Stages) -> list[str]:
    """The names of all tasks, stage by stage."""
    return [task.name for stage, tasks in stages.items() for task in tasks.of(stage)]


def assign(stages: Stages, containers: int, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """Give each task a container, by number from 0.

    Containers get equal numbers of tasks, in all and of each stage, or numbers that differ by one. As many tasks as
    this allows stay in the container that they had `before`, where their state is. Of the others, the key buckets of
    one number get one container where there is room, since it reads their partitions once for all of them. The same
    arguments give the same assignment.

    >>> assign({"clicks": StageTasks(2), "by-user": StageTasks(3)}, 2)
    {'clicks/0': 0, 'clicks/1': 1, 'by-user/0': 0, 'by-user/1': 1, 'by-user/2': 0}
    >>> assign({"clicks": StageTasks(2), "by-user": StageTasks(3)}, 3, before=_)
    {'clicks/0': 0, 'clicks/1': 1, 'by-user/0': 0, 'by-user/1': 1, 'by-user/2': 2}
    >>> assign({"clicks": StageTasks(2, elasticity=2)}, 2)
    {'clicks/0-0-2': 0, 'clicks/0-1-2': 0, 'clicks/1-0-2': 1, 'clicks/1-1-2': 1}

    Tasks that others are split or merged into are where those were `before`, if there is room beside tasks that stay.

    >>> assign({"clicks": StageTasks(2)}, 2, before={"clicks/0-0-2": 1, "clicks/0-1-2": 1, "clicks/1": 0})
    {'clicks/0': 1, 'clicks/1': 0}
    """
    assigned: dict[str, int] = {}
    capacities = _capacities(stages, containers, before or {})
    had = homes(tasks_of(stages), before or {})
    for stage, tasks in stages.items():
        assigned.update(_fill([*tasks.of(stage)], capacities[stage], before or {}, had))
    return {name: assigned[name] for name in tasks_of(stages)}


def homes(tasks: Iterable[str], before: Mapping[str, int]) -> dict[str, int]:
    """The container that had each of these tasks, or else the most of those that its keys were in; tasks of which none
    is known are left out."""
    known = by_number(before)
    containers = {}
    for task in map(TaskId.parse, tasks):
        had = [before[one.name] for one in known.get(task[:2], ()) if one.shares_keys(task)]
        if had:
            containers[task.name] = before.get(task.name, max(had, key=had.count))
    return containers


def _fill(
    tasks: list[TaskId], capacity: list[int], before: Mapping[str, int], had: Mapping[str, int]
) -> dict[str, int]:
    """Assign tasks of one stage to their containers of `before` up to their `capacity`, others to those that `had`
    their keys, and the rest to free containers."""
    assigned: dict[str, int] = {}
    for known in (before, had):
        for task in tasks:
            home = known.get(task.name)
            if task.name not in assigned and home is not None and home < len(capacity) and capacity[home]:
                capacity[home] -= 1
                assigned[task.name] = home
    rest = [task for task in tasks if task.name not in assigned]
    if any(task.elasticity > 1 for task in rest):
        assigned.update(_fill_together(rest, capacity, assigned))
        return assigned
    free = [container for turn in range(max(capacity)) for container, left in enumerate(capacity) if left > turn]
    assigned.update(zip((task.name for task in rest), free, strict=True))
    return assigned


def _fill_together(tasks: list[TaskId], capacity: list[int], assigned: Mapping[str, int]) -> dict[str, int]:
    """Assign tasks to containers with room, preferably to one that has key buckets of the same number already."""
    members: dict[int, set[int]] = {}
    for name, container in assigned.items():
        members.setdefault(TaskId.parse(name).number, set()).add(container)
    filled: dict[str, int] = {}
    for task in tasks:
        siblings = members.setdefault(task.number, set())
        roomy = [container for container in sorted(siblings) if capacity[container]]
        container = roomy[0] if roomy else max(range(len(capacity)), key=capacity.__getitem__)
        siblings.add(container)
        capacity[container] -= 1
        filled[task.name] = container
    return filled


def _capacities(stages: Stages, containers: int, before: Mapping[str, int]) -> dict[str, list[int]]:
    """How many tasks of each stage each container gets.

    Every container gets the integer part of its share of a stage. The remaining tasks of all stages are dealt out
    together, evenly, with at most one of a stage for a container, and first to containers where a task can then stay.
    That is a flow of minimum cost from the stages to the containers.
    """
    left = sum(tasks.total % containers for tasks in stages.values())
    if not left:
        return {stage: [tasks.total // containers] * containers for stage, tasks in stages.items()}
    import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

    gain = containers * (containers + left)  # for a task that stays: more than all other costs together
    flow: nx.DiGraph[object] = nx.DiGraph()
    for container in range(containers):
        flow.add_edge(container, "whole", capacity=left // containers, weight=0)
        flow.add_edge(container, "rest", capacity=1, weight=container)  # the first ones get more
    # The flow is maximal, so every container gets its integer part, and some get one more.
    flow.add_edge("whole", "end", capacity=left // containers * containers, weight=0)
    flow.add_edge("rest", "end", capacity=left % containers, weight=0)
    turn = 0
    for stage, tasks in stages.items():
        staying = [0] * containers
        for task in tasks.of(stage):
            home = before.get(task.name, containers)
            if home < containers:
                staying[home] += 1
        flow.add_edge("start", ("stage", stage), capacity=tasks.total % containers, weight=0)
        for container in range(containers):
            stays = staying[container] > tasks.total // containers
            wait = (container - turn) % containers  # all else being equal, they are dealt out in turn
            flow.add_edge(("stage", stage), container, capacity=1, weight=wait - gain if stays else wait)
        turn += tasks.total
    dealt = nx.max_flow_min_cost(flow, "start", "end")
    return {
        stage: [tasks.total // containers + dealt[("stage", stage)][container] for container in range(containers)]
        for stage, tasks in stages.items()
    }

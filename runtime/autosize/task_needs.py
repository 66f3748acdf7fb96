"""What the tasks of a run need of a container: the fraction of its time in which they would keep up.

This is the model of DS2 ("Three steps is all you need", OSDI 2018): what a task processes in the time in which it is
busy is what it could process, and what the stages before it would let through, if they kept up, is what it is to
process."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .run_load import RunLoad, TaskLoad


@dataclass(frozen=True, slots=True)
class TaskNeed:
    """What one task needs: a `share` of one container's time, of which `hottest` cannot be divided, as it is for one
    key. `target` is the number of messages per second that this is for."""

    task: TaskLoad
    share: float
    hottest: float
    target: float

    @property
    def is_behind(self) -> bool:
        """Whether more is to be processed than is."""
        return self.target > 1.1 * self.task.processed and self.target > 1


def needs_of(load: RunLoad, catch_up: float) -> dict[str, TaskNeed]:
    """What each task needs to process what arrives, and in so many seconds what waits."""
    costs = _costs(load)
    needs: dict[str, TaskNeed] = {}
    growth: dict[str, float] = {}
    for stage in load.numbers:
        tasks = {name: task for name, task in load.tasks.items() if task.stage == stage}
        targets = {name: _target(task, load.writers, growth, catch_up) for name, task in tasks.items()}
        processed = sum(task.processed for task in tasks.values())
        usual = sum(costs[name] for name in tasks) / processed if processed else 0.0
        growth[stage] = sum(targets.values()) / processed if processed else 1.0
        for name, task in tasks.items():
            each = costs[name] / task.processed if task.processed else usual
            share = each * targets[name]
            needs[name] = TaskNeed(task, share, task.hottest * share, targets[name])
    return needs


def _target(task: TaskLoad, writers: Mapping[str, str], growth: Mapping[str, float], catch_up: float) -> float:
    """The messages per second that a task is to process."""
    grown = ((one, growth.get(writers.get(stream, ""), 1.0)) for stream, one in task.inputs.items())
    return sum(one.arrived * factor + one.lag / catch_up for one, factor in grown)


def _costs(load: RunLoad) -> dict[str, float]:
    """The fraction of time that each task takes of its container, with its part of what the container does for all of
    them: reading, and the calls of asynchronous functions. Commits are left out, which wait for the system."""
    costs: dict[str, float] = {}
    for number, container in load.containers.items():
        tasks = {name: task for name, task in load.tasks.items() if task.container == number}
        shared = container.busy - container.committing - sum(task.busy for task in tasks.values())
        processed = sum(task.processed for task in tasks.values())
        each = max(0.0, shared) / processed if processed else 0.0
        costs |= {name: task.busy + each * task.processed for name, task in tasks.items()}
    return costs


def shares_by_number(needs: Mapping[str, TaskNeed]) -> dict[str, dict[int, tuple[float, float]]]:
    """Of each stage and number, the share that all of its key buckets need, and the largest that cannot be divided."""
    shares: dict[str, dict[int, tuple[float, float]]] = {}
    for need in needs.values():
        of_stage = shares.setdefault(need.task.stage, {})
        share, hottest = of_stage.get(need.task.number, (0.0, 0.0))
        of_stage[need.task.number] = share + need.share, max(hottest, need.hottest)
    return shares


def behind(needs: Mapping[str, TaskNeed]) -> Iterator[TaskNeed]:
    """The tasks that do not keep up, those that are furthest behind first."""
    return iter(sorted((one for one in needs.values() if one.is_behind), key=lambda one: -one.target))

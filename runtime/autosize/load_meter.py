"""Measures the load of a run, from the progress that its containers report."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...planner.plan import Plan
from ...planner.task_assignment import TaskId, numbers_of, stages_with, tasks_of
from ..report import Histogram, Progress
from .run_load import ContainerLoad, InputLoad, RunLoad, RunSize, TaskLoad

MEASURED = (
    "lag_messages",
    "messages_queued",
    "messages_processed",
    "task_busy_seconds",
    "calls_in_flight",
    "most_calls_in_flight",
    "commit_seconds",
    "event_loop_busy_seconds",
    "processor_seconds",
)
"""The metrics that it is measured by."""
FULL = 0.9
"""So much of its window must have been measured before a load is reported."""

_Partition = tuple[str, str]
"""A stream and a partition of it."""


@dataclass(slots=True)
class _TaskCounts:
    """What a task has counted up to a moment."""

    busy: float = 0.0
    calls: dict[str, float] = field(default_factory=dict)
    most_calls: dict[str, float] = field(default_factory=dict)
    processed: dict[_Partition, float] = field(default_factory=dict)
    backlog: dict[_Partition, float] = field(default_factory=dict)


@dataclass(slots=True)
class _ContainerCounts:
    """What a container has counted up to a moment."""

    at: float
    seconds: float
    generation: int
    memory: int | None
    own: dict[str, float] = field(default_factory=dict)
    tasks: dict[str, _TaskCounts] = field(default_factory=dict)
    hottest: dict[str, float] = field(default_factory=dict)


class LoadMeter:
    """Measures the load of a run in a window of time. `whole` are the stages that are never split.

    It begins anew once a task moves, or a container is started again: what is measured across that says little."""

    def __init__(self, plan: Plan, window: float, whole: Iterable[str] = ()) -> None:
        """`window` is in seconds."""
        self._plan, self._window, self._whole = plan, window, frozenset(whole)
        stages = {id: stage.id for stage in plan.stages for id in stage.operators}
        written = ((stream.name, stream.written_by) for stream in plan.streams if stream.kind == "intermediate")
        self._writers = {name: stages[operators[0]] for name, operators in written if operators}
        self._measured: dict[int, deque[_ContainerCounts]] = {}

    def add(self, progress: Progress, at: float) -> None:
        """Add what a container has reported, at a time in seconds."""
        container = int(progress.container)
        if progress.phase != "running":
            self._measured.pop(container, None)
            return
        counts, measured = _counts(progress, at), self._measured.setdefault(container, deque())
        if measured and not _goes_on(measured[-1], counts):
            self._measured = {container: (measured := deque())}
        measured.append(counts)
        while len(measured) > 2 and measured[1].at <= at - self._window:
            measured.popleft()

    def load(self, at: float, containers: int) -> RunLoad | None:
        """The load of a run of so many containers; None until all of them have been measured for long enough."""
        if not all(self._is_measured(number, at) for number in range(containers)):
            return None
        spans = {number: (self._measured[number][0], self._measured[number][-1]) for number in range(containers)}
        names = [name for _, last in spans.values() for name in last.tasks]
        stages = stages_with(names)
        numbers = {stage.id: stage.tasks for stage in self._plan.stages}
        if numbers_of(stages) != numbers or sorted(names) != sorted(tasks_of(stages)):
            return None  # some of them move
        size = RunSize(containers, {stage.id: stages[stage.id].elasticity for stage in self._plan.stages})
        processed = _processed(spans.values())
        tasks = {
            name: self._task(name, container, first, last, processed)
            for container, (first, last) in spans.items()
            for name in last.tasks
        }
        return RunLoad(
            at=at,
            seconds=min(last.seconds - first.seconds for first, last in spans.values()),
            size=size,
            tasks=tasks,
            containers={number: _container(first, last) for number, (first, last) in spans.items()},
            numbers=numbers,
            writers=self._writers,
            whole=self._whole,
        )

    def _is_measured(self, container: int, at: float) -> bool:
        measured = self._measured.get(container)
        return measured is not None and measured[-1].at - measured[0].at >= FULL * self._window > at - measured[-1].at

    def _task(
        self,
        name: str,
        container: int,
        first: _ContainerCounts,
        last: _ContainerCounts,
        processed: Mapping[tuple[TaskId, _Partition], float],
    ) -> TaskLoad:
        task, seconds = TaskId.parse(name), last.seconds - first.seconds
        before, now = first.tasks[name], last.tasks[name]
        inputs: dict[str, InputLoad] = {}
        for partition, number in now.processed.items():
            own = number - before.processed[partition]
            all_parts = processed[(task._replace(bucket=0), partition)]
            share = own / all_parts if all_parts else 1 / task.elasticity
            backlog, grown = (
                share * now.backlog[partition],
                share * (now.backlog[partition] - before.backlog[partition]),
            )
            read = inputs.get(partition[0], InputLoad(0.0, 0.0))
            arrived = read.arrived + max(0.0, own + grown) / seconds
            inputs[partition[0]] = InputLoad(arrived, read.processed + own / seconds, read.lag + backlog)
        full = [(before.calls.get(id, 0.0) + calls) / 2 / now.most_calls[id] for id, calls in now.calls.items()]
        return TaskLoad(
            stage=task.stage,
            number=task.number,
            container=container,
            busy=(now.busy - before.busy) / seconds,
            inputs=inputs,
            calls=max(full, default=0.0),
            hottest=last.hottest.get(name, 0.0),
        )


def _processed(spans: Iterable[tuple[_ContainerCounts, _ContainerCounts]]) -> dict[tuple[TaskId, _Partition], float]:
    """The messages that all key buckets of a task have processed of a partition, by the first of them."""
    total: dict[tuple[TaskId, _Partition], float] = {}
    for first, last in spans:
        for name, counts in last.tasks.items():
            for partition, number in counts.processed.items():
                key = (TaskId.parse(name)._replace(bucket=0), partition)
                total[key] = total.get(key, 0.0) + number - first.tasks[name].processed[partition]
    return total


def _container(first: _ContainerCounts, last: _ContainerCounts) -> ContainerLoad:
    seconds = last.seconds - first.seconds
    share = {name: (value - first.own.get(name, 0.0)) / seconds for name, value in last.own.items()}
    return ContainerLoad(
        busy=share.get("event_loop_busy_seconds", 0.0),
        committing=share.get("commit_seconds", 0.0),
        processor=share.get("processor_seconds", 0.0),
        memory=last.memory,
    )


def _goes_on(before: _ContainerCounts, now: _ContainerCounts) -> bool:
    """Whether a container is the process that it was, with the same tasks and the same inputs."""
    if now.seconds <= before.seconds or now.generation != before.generation or now.tasks.keys() != before.tasks.keys():
        return False
    return all(counts.processed.keys() == before.tasks[name].processed.keys() for name, counts in now.tasks.items())


def _counts(progress: Progress, at: float) -> _ContainerCounts:
    counts = _ContainerCounts(at, progress.seconds, progress.generation, progress.memory)
    for sample in progress.facts:
        if sample.metric not in MEASURED:
            continue
        if isinstance(sample.value, Histogram):
            counts.own[sample.metric] = sample.value.total
        elif len(sample.labels) < 2:
            counts.own[sample.metric] = sample.value
        else:
            task = counts.tasks.setdefault(sample.labels[1], _TaskCounts())
            _count(task, sample.metric, sample.labels[2:], sample.value)
    for key in progress.hot_keys:
        counts.hottest[key.task] = max(key.share, counts.hottest.get(key.task, 0.0))
    return counts


def _count(task: _TaskCounts, metric: str, labels: tuple[str, ...], value: float) -> None:
    if metric == "task_busy_seconds":
        task.busy = value
    elif metric == "calls_in_flight":
        task.calls[labels[0]] = value
    elif metric == "most_calls_in_flight":
        task.most_calls[labels[0]] = value
    elif metric == "messages_processed":
        task.processed[(labels[0], labels[1])] = value
        task.backlog.setdefault((labels[0], labels[1]), 0.0)
    elif metric in ("messages_queued", "lag_messages"):
        partition = (labels[0], labels[1])
        task.backlog[partition] = task.backlog.get(partition, 0.0) + value

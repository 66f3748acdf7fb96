"""A run in virtual time: stages whose messages cost processor time, in containers that have a second each second."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fluvial.planner.task_assignment import StageTasks, TaskId, assign
from fluvial.runtime.autosize import (
    Autosizer,
    ContainerLoad,
    InputLoad,
    RunLoad,
    RunSize,
    SizeBounds,
    SizeDecision,
    TaskLoad,
)

WINDOW, EVERY, STEP = 30.0, 10.0, 5.0
"""Seconds that are measured, between two decisions, and of one step of the clock."""
OVERHEAD = 0.2
"""The fraction of a message's time that its container takes, and not its task."""


@dataclass(frozen=True, slots=True)
class SimulatedStage:
    """A stage with so many tasks. A message costs `cost` seconds; `hot` is the share of messages of one key. A stage
    with a `limit` gets so many answers per second from a remote service, and waits for the rest of the time."""

    tasks: int
    cost: float
    writer: str = ""
    hot: float = 0.0
    limit: float = float("inf")


class SimulatedRun:
    """A run whose size an autosizer decides. `decisions` has the changes, and the times at which they were made."""

    def __init__(self, stages: Mapping[str, SimulatedStage], bounds: SizeBounds, seed: int = 0) -> None:
        self.stages, self.bounds = stages, bounds
        self.now = 0.0
        self.decisions: list[tuple[float, SizeDecision]] = []
        self.last: SizeDecision | None = None
        self._random = random.Random(seed)
        self._waiting: dict[tuple[str, int, int, int], float] = {}
        self._resize(RunSize(bounds.containers[0], dict.fromkeys(stages, bounds.elasticity[0])))

    def _resize(self, size: RunSize) -> None:
        before: dict[tuple[str, int], float] = {}
        for (stage, number, _, _), waiting in self._waiting.items():
            before[(stage, number)] = before.get((stage, number), 0.0) + waiting
        self.size = size
        parts = {name: StageTasks(stage.tasks, size.elasticity[name]) for name, stage in self.stages.items()}
        self._tasks = {TaskId.parse(name): container for name, container in assign(parts, size.containers).items()}
        together = Counter((task.stage, container) for task, container in self._tasks.items())
        self._together = {task: together[(task.stage, container)] for task, container in self._tasks.items()}
        self._waiting = {task: before.get(task[:2], 0.0) / task.elasticity for task in self._tasks}
        self._measured: list[tuple[dict[TaskId, tuple[float, float]], dict[int, float]]] = []

    def _share(self, task: TaskId) -> float:
        """The share of a stage's messages that a task gets: the first one has the hot key."""
        stage = self.stages[task.stage]
        even = (1 - stage.hot) / (stage.tasks * task.elasticity)
        return even + stage.hot * (task.number == task.bucket == 0)

    def _step(self, rate: float) -> None:
        written: dict[str, float] = {}
        free = dict.fromkeys(range(self.size.containers), STEP)
        counts: dict[TaskId, tuple[float, float]] = {}
        for name, stage in self.stages.items():
            arrived = written.get(stage.writer, 0.0) if stage.writer else rate * STEP
            tasks = [task for task in self._tasks if task.stage == name]
            for task in tasks:
                new = arrived * self._share(task) * self._random.uniform(0.95, 1.05)
                self._waiting[task] += new
                counts[task] = (new, 0.0)
            for last in (False, True):  # a fair part each, and then what others have left
                for task in tasks:
                    container = self._tasks[task]
                    others = 1 if last else self._together[task]
                    most = min(free[container] / stage.cost / others, stage.limit * STEP / len(tasks) - counts[task][1])
                    done = max(0.0, min(self._waiting[task], most))
                    free[container] -= done * stage.cost
                    self._waiting[task] -= done
                    counts[task] = (counts[task][0], counts[task][1] + done)
            written[name] = sum(counts[task][1] for task in tasks)
        self.now += STEP
        self._measured = [*self._measured, (counts, {one: STEP - left for one, left in free.items()})][
            -round(WINDOW / STEP) :
        ]

    @property
    def load(self) -> RunLoad | None:
        """What a meter would have measured."""
        seconds = len(self._measured) * STEP
        if seconds < WINDOW:
            return None
        busy = {one: sum(busy[one] for _, busy in self._measured) / seconds for one in range(self.size.containers)}
        return RunLoad(
            at=self.now,
            seconds=seconds,
            size=self.size,
            tasks={task.name: self._task_load(task, seconds) for task in self._tasks},
            containers={
                one: ContainerLoad(min(1.0, 0.02 + share), 0.02, share, 100 << 20) for one, share in busy.items()
            },
            numbers={name: stage.tasks for name, stage in self.stages.items()},
            writers={name: stage.writer for name, stage in self.stages.items() if stage.writer},
        )

    def _task_load(self, task: TaskId, seconds: float) -> TaskLoad:
        stage, waiting = self.stages[task.stage], self._waiting[task]
        arrived = sum(counts[task][0] for counts, _ in self._measured) / seconds
        processed = sum(counts[task][1] for counts, _ in self._measured) / seconds
        known = stage.hot and task.number == task.bucket == 0 and task.elasticity > 1
        return TaskLoad(
            stage=task.stage,
            number=task.number,
            container=self._tasks[task],
            busy=processed * stage.cost * (1 - OVERHEAD),
            inputs={task.stage: InputLoad(arrived, processed, waiting)},
            calls=1.0 if waiting > 10 and stage.limit < float("inf") else 0.0,
            hottest=stage.hot / self._share(task) if known else 0.0,
        )

    @property
    def lag(self) -> float:
        """The messages that wait."""
        return sum(self._waiting.values())

    def run(self, rate: Callable[[float], float], seconds: float, autosizer: Autosizer) -> list[tuple[float, RunSize]]:
        """Let messages arrive, at so many per second at each time. Returns the changes that were made meanwhile."""
        until, first = self.now + seconds, len(self.decisions)
        while self.now < until:
            self._step(rate(self.now))
            load = self.load if self.now % EVERY < STEP else None
            if load is not None:
                self.last = autosizer.decide(load, self.bounds)
                if self.last.size != self.size:
                    self.decisions.append((self.now, self.last))
                    self._resize(self.last.size)
        return [(at, decision.size) for at, decision in self.decisions[first:]]

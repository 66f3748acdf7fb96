"""A container of the local engine in this process, which does one turn when it is told to."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.planner.task_assignment import stages_of, tasks_of
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.commit.contract import Commits
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.coordination.membership import Membership, MembershipGuard
from fluvial.runtime.local.engine import open_commits
from fluvial.runtime.local.observe.progress import ProgressReporter
from fluvial.runtime.local.open_tasks import make_tasks
from fluvial.runtime.local.run_context import RunContext
from fluvial.runtime.local.task import LocalTask
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.end_offsets import EndOffsets


async def never(_: float) -> None:
    raise AssertionError("nothing sleeps here")


@dataclass
class HandClock:
    """A clock that a test sets, in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class LocalRun:
    """The tasks of a pipeline, the container that owns them, and its clock."""

    tasks: list[LocalTask]
    container: Container
    clock: HandClock


def local_run(
    pipeline: Pipeline,
    system: MemorySystem,
    stack: ExitStack,
    *,
    stop: Callable[[], bool] = lambda: False,
    commits_as: Callable[[Commits], Commits] = lambda commits: commits,
    ends_by_drain: bool = False,
    guard: MembershipGuard | None = None,
    **settings: Any,
) -> LocalRun:
    """A container that owns all tasks of a pipeline and has been started; `stack` closes what it opens. `stop` says
    whether it was asked to stop, and `commits_as` may put something before its commits. One that `ends_by_drain`
    is until it is stopped. Its place is kept by the `guard`, if there is one."""
    chosen, admin, clock = Settings(**settings), system.admin(), HandClock()
    plan = checked_plan(pipeline, system, chosen)
    for stream in plan.streams:
        if stream.kind != "source":
            admin.create(stream.name, stream.partitions)
    member = Membership(0, 1, 1, "run", frozenset(tasks_of(stages_of(plan))), None, "p-1-0")
    commits = commits_as(open_commits(plan, system, admin, chosen, MembershipGuard(member), stack))
    context = RunContext("run", plan, chosen, commits, never, ends_by_drain=ends_by_drain)
    tasks = make_tasks(context, system, admin, stack)
    consumer = system.consumer()
    stack.callback(consumer.close)
    machine = replace(THIS_MACHINE, clock=clock, wall=lambda: round(1000 * clock.now))
    reporter = ProgressReporter(plan, EndOffsets(admin), None)
    container = Container(plan, tasks, consumer, commits, chosen, None, stop, reporter, guard, machine)
    container.start()
    return LocalRun(tasks, container, clock)

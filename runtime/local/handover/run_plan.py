"""The tasks of a pipeline as a run has them: their elasticity may have changed while it ran."""

from collections.abc import Collection, Iterator

from ....dsl.errors import PlanError
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.stream_names import coordinator
from ....planner.task_assignment import TaskId, numbers_of, stages_of, stages_with, tasks_in
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import System
from ..checkpoints.checkpoint import Checkpoints
from ..checkpoints.rescaled import with_elasticity
from ..coordination.assignments import Assignment
from ..coordination.coordinator_stream import Coordinator
from ..coordination.membership import ContainerId


def plan_of_run(
    plan: Plan, system: System, container: ContainerId, until: str, machine: Machine = THIS_MACHINE
) -> Plan | None:
    """The plan with the elasticity of the run that a container joins; None if it begins a run of its own.

    A container that is started again is given the elasticity with which its run began; the run may have been scaled
    since. A container that no supervisor has started joins a scaled run whatever elasticity it was given."""
    if system.admin().partitions(coordinator(plan.name)) is None:
        return None
    assignment = Coordinator(system, plan.name, machine).read()[0].assignment
    if assignment is None or not _joins(assignment, container, until):
        return None
    stages = stages_with(assignment.tasks)
    if numbers_of(stages) != numbers_of(stages_of(plan)):
        return None
    return with_elasticity(plan, {stage: tasks.elasticity for stage, tasks in stages.items()})


def _joins(assignment: Assignment, container: ContainerId, until: str) -> bool:
    if container.run:
        return assignment.run == container.run
    return container.containers != 1 and bool(assignment.epoch) and assignment.until == until == "stopped"


def half_changed(plan: Plan, stored: Checkpoints) -> list[str]:
    """The tasks of a pipeline that was stopped while its elasticity changed, so that tasks of one stage have different
    elasticities; empty where each stage has one elasticity."""
    known: dict[str, list[TaskId]] = {stage.id: [] for stage in plan.stages}
    for task in map(TaskId.parse, stored):
        if task.stage in known:
            known[task.stage].append(task)
    if all(len({task.elasticity for task in tasks}) <= 1 for tasks in known.values()):
        return []
    return [task.name for stage in plan.stages for task in _tasks_of(known[stage.id], tasks_in(stage))]


def _tasks_of(known: list[TaskId], planned: list[TaskId]) -> Iterator[TaskId]:
    """The tasks of a stage: of each number the tasks that have checkpoints, or those of the plan if none has."""
    numbers = {task.number for task in known}
    yield from known
    yield from (task for task in planned if task.number not in numbers)


def refuse_half_changed(plan: Plan, tasks: Collection[str], until: str) -> None:
    """Raise PlanError for a run to an end of a pipeline whose elasticity is half changed: only a run until it is
    stopped goes on with the change."""
    if tasks and until != "stopped":
        stages = ", ".join(repr(stage) for stage in stages_of(plan))
        wrong = f"pipeline {plan.name!r} was stopped while its elasticity changed: tasks of {stages} are split in part"
        remedy = "start it once without --until: it goes on with the change, to the elasticity that it is started with"
        raise PlanError(explain(wrong, "a change that is complete", remedy, plan.pipeline.origin))

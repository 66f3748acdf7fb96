"""Removes what journals hold: as a step of a reset, and where the offsets of a task are set, so that messages which are
processed anew are not answered from before."""

from collections.abc import Collection, Iterable
from contextlib import closing
from functools import partial

from ....planner.journals import journals_in, journals_of
from ....planner.plan import Plan
from ....planner.stream_names import journal
from ....planner.task_assignment import TaskId
from ...reset_step import ResetStep
from ...systems.contract import ProducingSystem, System
from ..checkpoints.checkpoint import Checkpoint, Checkpoints


def journalled(plan: Plan, stored: Checkpoints) -> set[str]:
    """The operators that have a journal, or had one at their last commit."""
    return {one.operator for one in journals_of(plan)}.union(*(one.journals for one in stored.values()))


def journal_steps(plan: Plan, system: System, operators: Collection[str]) -> list[ResetStep]:
    """The steps that remove the journals of operators."""
    streams = [journal(plan.name, operator) for operator in sorted(operators)]
    admin = system.admin()
    there = [name for name in streams if admin.partitions(name) is not None]
    if isinstance(system, ProducingSystem):
        return [ResetStep("journal", name, partial(system.admin().remove, name)) for name in there]
    return [ResetStep("journal", name, partial(empty, system, name)) for name in there if holds(system, name)]


def holds(system: System, stream: str) -> bool:
    """Whether a stream exists and holds records."""
    admin = system.admin()
    return admin.partitions(stream) is not None and admin.starts(stream) != admin.ends(stream)


def empty(system: System, stream: str) -> None:
    """Trim a stream to its end."""
    with closing(system.producer()) as producer:
        producer.trim({(stream, partition): end for partition, end in enumerate(system.admin().ends(stream))})


def ends_of_journals(plan: Plan, system: System, task: str, checkpoint: Checkpoint) -> dict[str, int]:
    """Where the journals of a task end, by operator: for a checkpoint after which no entry of now counts."""
    id = TaskId.parse(task)
    planned = journals_in(plan, id.stage) if any(stage.id == id.stage for stage in plan.stages) else {}
    return dict(_ends(plan, system, id.number, {*planned, *checkpoint.journals}))


def _ends(plan: Plan, system: System, number: int, operators: Iterable[str]) -> Iterable[tuple[str, int]]:
    admin = system.admin()
    for operator in sorted(operators):
        stream = journal(plan.name, operator)
        if number < (admin.partitions(stream) or 0):
            yield operator, admin.ends(stream)[number]

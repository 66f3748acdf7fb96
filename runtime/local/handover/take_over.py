"""Hands the tasks of a container over for it, once it is gone."""

from collections.abc import Collection
from contextlib import closing

from msgspec.structs import replace

from ....planner.plan import Plan
from ....planner.stream_names import checkpoints as checkpoints_of
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import Checkpoint, checkpoints_in, encode
from ..coordination.assignments import Assignment, CoordinatorState, Gone
from ..coordination.membership import transactional_id
from .owners import future_of, owned_by, owners_of


def gone(container: int, assignment: Assignment, state: CoordinatorState) -> Gone:
    """The record that says that a container is gone. It names the process that the state knows, and no later one."""
    presence = state.presences.get(container)
    incarnation = "" if presence is None else presence.incarnation
    return Gone(container=container, generation=assignment.generation, run=assignment.run, incarnation=incarnation)


def take_over(
    plan: Plan, system: ProducingSystem, assignment: Assignment, container: int, machine: Machine = THIS_MACHINE
) -> Collection[str]:
    """Hand the tasks of a container over to the containers that the assignment gives them. Returns these tasks.

    This uses the transactional id of the container: if its process was only paused, what it writes later is refused.
    Raises TakenOver if a process of the container has started meanwhile: that one hands the tasks over itself.
    """
    stream = checkpoints_of(plan.name)
    id = transactional_id(plan.name, assignment.began, container)
    with closing(system.record_producer(id, streams=[stream])) as producer:
        # Once it is fenced: until then it could commit.
        checkpoints = checkpoints_in(system, plan.name)
        tasks = sorted(owned_by(container, owners_of(assignment, checkpoints)))
        handed_over = {}
        future = future_of(assignment, tasks)
        for task in tasks:
            last = checkpoints.get(task, Checkpoint())
            # One that is to be split goes to a container that gets a part of it, and is split there.
            to = future.moves[task] if task in future.moves else assignment.tasks[future.splits[task][0]]
            handed_over[task] = replace(last, owner=(assignment.run, to), number=last.number + 1)
        if tasks:
            producer.begin()
            now = machine.wall()
            producer.send(stream, 0, [(task.encode(), encode(one), now, ()) for task, one in handed_over.items()])
            producer.commit()
    return tasks

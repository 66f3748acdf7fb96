"""Which tasks a pipeline has and which container has each, and what is to become of them.

The tasks are those of the assignment with which the containers began. A task that was split or merged since is replaced
by the tasks that go on from it, as their checkpoints say."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ....planner.task_assignment import TaskId, by_number, homes
from ..checkpoints.checkpoint import Checkpoints
from ..coordination.assignments import Assignment

Owners = Mapping[str, int]
"""The container that has each task."""


def owners_of(assignment: Assignment, checkpoints: Checkpoints) -> Owners:
    """The container that has each task. A task that was handed over, split or merged says so in its checkpoint.

    A checkpoint is written by the container that has the task, in a transaction that no other container can write. So
    there is one owner at each time, whatever assignments have been decided meanwhile. A run may begin while containers
    of an earlier run, not yet fenced, split or merge tasks. Then the checkpoints say which tasks there are, and the
    container that the assignment gives their keys has them.
    """
    # Not with the last assignment: it says what is wanted, and a task is where its checkpoint says.
    owners = dict(assignment.began_with)
    if others := [task for task in checkpoints if task not in owners]:
        owners |= homes(others, assignment.began_with)
    for task in owners:
        if task in checkpoints and (owner := checkpoints[task].owner_in(assignment.run)) is not None:
            owners[task] = owner[1]
    replaced = {one for tasks in by_number(owners).values() for one in _replaced(tasks, checkpoints)}
    return {task: owner for task, owner in owners.items() if task not in replaced}


def _replaced(tasks: Collection[TaskId], checkpoints: Checkpoints) -> list[str]:
    """Of the tasks of one number, those that are replaced: a task that shares keys with them has a later checkpoint.
    That task may be replaced itself: who has read only a part of a transaction does not see all tasks that go on from
    one."""
    # As nearly always. Tasks of one elasticity share no keys, so none has replaced another.
    if len({task.elasticity for task in tasks}) == 1:
        return []
    ordered = sorted(tasks, key=lambda task: _number(checkpoints, task.name))
    return [
        task.name
        for at, task in enumerate(ordered)
        if any(
            _number(checkpoints, task.name) < _number(checkpoints, later.name)
            for later in ordered[at + 1 :]
            if later.shares_keys(task)
        )
    ]


def _number(checkpoints: Checkpoints, task: str) -> int:
    return checkpoints[task].number if task in checkpoints else -1


def last_numbers(tasks: Collection[str], checkpoints: Checkpoints) -> dict[str, int]:
    """The number of the last commit of each task, or of one that has taken its place; -1 where there is none."""
    wanted = {TaskId.parse(task)[:2] for task in tasks}
    known = [id for id in map(TaskId.parse, checkpoints) if id[:2] in wanted]
    return {
        task: max((checkpoints[id.name].number for id in known if id.shares_keys(TaskId.parse(task))), default=-1)
        for task in tasks
    }


def owned_by(container: int, owners: Owners) -> frozenset[str]:
    """The tasks that a container has."""
    return frozenset(task for task, owner in owners.items() if owner == container)


def unsettled(assignment: Assignment, owners: Owners) -> dict[str, tuple[int, int]]:
    """The tasks of an assignment that another container has than it wants, or that do not exist yet. Of each, the
    container that has the task, or another task with some of its keys; and the container that is to have it. The two
    are equal where no owner of its keys is known."""
    left = {task: to for task, to in assignment.tasks.items() if owners.get(task) != to}
    having = by_number(owners) if left else {}
    moves = {}
    for task, to in left.items():
        id = TaskId.parse(task)
        moves[task] = next((owners[one.name] for one in having.get(id[:2], ()) if one.shares_keys(id)), to), to
    return moves


@dataclass(frozen=True, slots=True)
class Future:
    """What is to become of the tasks of a run by an assignment.

    `moves` has the container that is to have each task that is not split: as it is, or merged there with others.
    `splits` has the tasks that a task is to be split into, and `merges` the tasks that are to be merged into one.
    """

    moves: Mapping[str, int]
    splits: Mapping[str, tuple[str, ...]]
    merges: Mapping[str, tuple[str, ...]]


def future_of(assignment: Assignment, tasks: Iterable[str]) -> Future:
    """What is to become of these tasks by an assignment. `merges` has only tasks that are among these, which may be a
    part of those to be merged: see `is_whole`."""
    wanted = by_number(assignment.tasks)
    moves: dict[str, int] = {}
    splits: dict[str, tuple[str, ...]] = {}
    merges: dict[str, tuple[str, ...]] = {}
    for task in map(TaskId.parse, tasks):
        news = [new for new in wanted.get(task[:2], ()) if new.shares_keys(task)]
        if len(news) > 1:
            splits[task.name] = tuple(new.name for new in news)
        elif news:
            moves[task.name] = assignment.tasks[news[0].name]
            if news[0] != task:
                merges[news[0].name] = (*merges.get(news[0].name, ()), task.name)
    return Future(moves, splits, merges)

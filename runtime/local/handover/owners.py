"""Which container has a task: the one of the assignment with which the containers began, or that of its checkpoint."""

from collections.abc import Mapping

from ..checkpoints.checkpoint import Checkpoints
from ..coordination.assignments import Assignment


def owners_of(assignment: Assignment, checkpoints: Checkpoints) -> dict[str, int]:
    """The container that has each task. A task that was handed over says so in its checkpoint.

    A checkpoint is written by the container that has the task, in a transaction that no other container can write. So
    there is one owner at each time, whatever assignments have been decided meanwhile.
    """
    owners = dict(assignment.began_with)
    for task in owners:
        owner = checkpoints[task].owner if task in checkpoints else None
        if owner is not None and owner[0] == assignment.run:
            owners[task] = owner[1]
    return owners


def owned_by(container: int, owners: Mapping[str, int]) -> frozenset[str]:
    """The tasks that a container has."""
    return frozenset(task for task, owner in owners.items() if owner == container)


def unsettled(assignment: Assignment, owners: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The tasks that are not where they are assigned: the container that has each, and the one that is to have it."""
    return {
        task: (owners[task], container) for task, container in assignment.tasks.items() if owners[task] != container
    }

"""Gives the tasks of a silent container to other containers, and spreads tasks evenly again once it is back."""

from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from ....dsl.errors import TakenOver
from ....planner.plan import Plan
from ....planner.task_assignment import TaskId, by_number, stages_with
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import checkpoints_in
from ..coordination.assignments import Assignment, CoordinatorState, Gone, moved, scaled
from ..coordination.coordinator_stream import Coordinator
from .owners import Owners, owned_by, owners_of, unsettled
from .standbys import standbys_of
from .take_over import gone, take_over

Lacking = Callable[[Collection[str]], Collection[int]]
"""Returns the containers in which a copy of any of these tasks has failed."""
MayDecide = Callable[[CoordinatorState], bool]
"""Whether a container may decide for others, by what it has just read."""


class NothingToDo(Exception):
    """Another process has given the tasks away already, or there is nothing to give away."""


def _always(_: CoordinatorState) -> bool:
    return True


def _none(_: Collection[str]) -> Collection[int]:
    return ()


def fail_over(
    plan: Plan,
    system: ProducingSystem,
    run: str,
    silent: int,
    alive: Collection[int],
    standbys: int,
    machine: Machine = THIS_MACHINE,
    *,
    may_decide: MayDecide = _always,
    lacking: Lacking = _none,
) -> Collection[str]:
    """Give the tasks of a silent container of a run to containers that are alive, to the standbys of the tasks first.
    Returns these tasks. Returns none where another process has given them away already, or where the container has no
    tasks and is to get none."""
    stream = Coordinator(system, plan.name, machine)
    dead: list[Gone] = []

    def decide(state: CoordinatorState) -> Assignment:
        last, presence = state.assignment, state.presences.get(silent)
        living = [one for one in alive if one != silent]
        if last is None or last.run != run or last.until != "stopped" or not living:
            raise NothingToDo
        if presence is None or presence.run != run or not may_decide(state):
            raise NothingToDo
        owners = owners_of(last, checkpoints_in(system, plan.name))
        # What a container is to get that is known to be gone waits for it with its owner, as what `scale` wants does.
        expected = silent in last.tasks.values() and presence.state != "done"
        if silent not in owners.values() and not expected:
            raise NothingToDo  # it would be fenced for nothing if it is alive
        dead[:] = [gone(silent, last, state)]
        running = {number for number, one in state.presences.items() if one.run == run and one.state == "running"}
        copying = {one for one in state.sending(run) if one != silent} or None
        return without(
            last, silent, [one for one in living if one in running] or living, standbys, owners, copying, lacking
        )

    with suppress(NothingToDo), stream.decided(decide) as (assignment, _, _):
        # Fenced first, and said afterwards: whoever reads that it is gone may count on it that it writes no more.
        tasks = take_over(plan, system, assignment, silent, machine)
        for one in dead:
            stream.write(one)
        return tasks
    return ()


def without(
    last: Assignment,
    silent: int,
    alive: Collection[int],
    standbys: int,
    owners: Owners | None = None,
    copying: Collection[int] | None = None,
    lacking: Lacking = _none,
) -> Assignment:
    """The assignment in which containers that are `alive` have the tasks of the `silent` one: each task goes to its
    standby if it has one, else to the container with the fewest tasks.

    The tasks of the silent container are those that the assignment gives it; and, of those that it has by the `owners`,
    the ones whose next container is not alive either. `copying` are the containers that keep copies. If all containers
    that are alive are beyond the number that the run is to have, it is raised to include the first of them."""
    copies = standbys_of(last, standbys, copying)
    within = [one for one in alive if one < last.containers]
    containers = last.containers if within else min(alive) + 1
    counts = Counter(dict.fromkeys(within or [min(alive)], 0))
    counts.update(owner for owner in last.tasks.values() if owner in counts)
    left = {task for task, owner in last.tasks.items() if owner == silent}
    if owners is not None:
        left |= {one for one in _goes_on_as(last, owned_by(silent, owners)) if last.tasks[one] not in alive}
    tasks = dict(last.tasks)
    for task in sorted(left, key=[*last.tasks].index):
        lack = lacking([task])
        # A copy elsewhere goes on within a second; any other container restores the whole state first.
        warm = [one for one in copies.get(task, ()) if one in counts and one not in lack]
        tasks[task] = warm[0] if warm else min(counts, key=lambda one: (one in lack, counts[one], one))
        counts[tasks[task]] += 1
    return last if tasks == last.tasks else moved(last, tasks, containers)


def _goes_on_as(assignment: Assignment, tasks: Collection[str]) -> set[str]:
    """The tasks of an assignment that these go on as: themselves, or those that they are split or merged into."""
    wanted = by_number(assignment.tasks)
    ids = map(TaskId.parse, tasks)
    return {new.name for task in ids for new in wanted.get(task[:2], ()) if new.shares_keys(task)}


def even_out(
    plan: Plan,
    system: ProducingSystem,
    run: str,
    alive: Collection[int],
    machine: Machine = THIS_MACHINE,
    *,
    may_decide: MayDecide = _always,
) -> bool:
    """Let all containers of a run have their share of its tasks again, if all of them are alive. Returns whether tasks
    are to move for that."""

    def decide(state: CoordinatorState) -> Assignment:
        last = state.assignment
        if last is None or last.run != run or last.until != "stopped" or state.drains:
            raise NothingToDo
        if state.not_running() or not may_decide(state):
            raise NothingToDo
        if not {*range(last.containers)} <= {*alive}:
            raise NothingToDo
        if not is_uneven(last):  # as nearly always, so that no checkpoints are read
            raise NothingToDo
        owners = owners_of(last, checkpoints_in(system, plan.name))
        if unsettled(last, owners):
            raise NothingToDo
        return scaled(state, stages_with(last.tasks), last.containers, owners)

    with suppress(NothingToDo, TakenOver), Coordinator(system, plan.name, machine).decided(decide):
        return True
    return False


def is_uneven(assignment: Assignment) -> bool:
    """Whether a container has fewer tasks than its share."""
    counts = Counter(dict.fromkeys(range(assignment.containers), 0))
    counts.update(assignment.tasks.values())
    return max(counts.values()) - min(counts.values()) > 1

"""Gives the tasks of a container that has been silent to others, and evens them out once it is back."""

import logging
from collections import Counter
from collections.abc import Collection
from contextlib import suppress

from ....dsl.errors import TakenOver
from ....dsl.text import plural
from ....planner.plan import Plan
from ....planner.task_assignment import stages_with
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import checkpoints_in
from ..coordination.assignments import Assignment, CoordinatorState, moved, scaled
from ..coordination.coordinator_stream import Coordinator
from .owners import owners_of, unsettled
from .standbys import standbys_of
from .take_over import gone, take_over

BACK_SECONDS = 60.0
"""A container that is back for so long gets its share of the tasks again."""

_log = logging.getLogger(__name__)


class NothingToDo(Exception):
    """Another process has done it, or nobody is to."""


def fail_over(
    plan: Plan,
    system: ProducingSystem,
    run: str,
    silent: int,
    alive: Collection[int],
    standbys: int,
    machine: Machine = THIS_MACHINE,
) -> Collection[str]:
    """Give the tasks of a silent container of a run to those that are alive, first to their standbys. Returns these
    tasks; none where another process has done so, or where the container has ended in good order."""
    stream = Coordinator(system, plan.name, machine)

    def decide(state: CoordinatorState) -> Assignment:
        last = state.assignment
        if last is None or last.run != run or last.until != "stopped" or not alive:
            raise NothingToDo
        presence = state.presences.get(silent)
        if presence is None or presence.run != run or presence.state == "done":
            raise NothingToDo
        if silent not in owners_of(last, checkpoints_in(system, plan.name)).values():
            raise NothingToDo  # it would be fenced for nothing if it is alive
        return without(last, silent, alive, standbys)

    with suppress(NothingToDo), stream.decided(decide) as (assignment, _, _):
        tasks = take_over(plan, system, assignment, silent, machine)
        stream.write(gone(silent, assignment))
        return tasks
    return ()


def without(last: Assignment, silent: int, alive: Collection[int], standbys: int) -> Assignment:
    """The assignment in which others that are alive have the tasks of a container: for each its standby if it has one,
    else the one of them with the fewest tasks."""
    copies = standbys_of(last, standbys)
    counts = Counter({one: 0 for one in alive if one < last.containers})
    counts.update(owner for owner in last.tasks.values() if owner in counts)
    tasks = dict(last.tasks)
    for task in (task for task, owner in last.tasks.items() if owner == silent):
        warm = [one for one in copies.get(task, ()) if one in counts]
        tasks[task] = warm[0] if warm else min(counts, key=lambda one: (counts[one], one))
        counts[tasks[task]] += 1
    return last if tasks == last.tasks else moved(last, tasks)


def even_out(plan: Plan, system: ProducingSystem, run: str, machine: Machine = THIS_MACHINE) -> bool:
    """Let all containers of a run have their share of its tasks again. Returns whether tasks are to move for that."""

    def decide(state: CoordinatorState) -> Assignment:
        last = state.assignment
        if last is None or last.run != run or last.until != "stopped" or state.not_running():
            raise NothingToDo
        if not is_uneven(last):  # as nearly always, so that no checkpoints are read
            raise NothingToDo
        owners = owners_of(last, checkpoints_in(system, plan.name))
        if unsettled(last, owners):
            raise NothingToDo
        return scaled(state, stages_with(last.tasks), last.containers, owners)

    with suppress(NothingToDo), Coordinator(system, plan.name, machine).decided(decide):
        return True
    return False


def is_uneven(assignment: Assignment) -> bool:
    """Whether a container has fewer tasks than its share."""
    counts = Counter(dict.fromkeys(range(assignment.containers), 0))
    counts.update(assignment.tasks.values())
    return max(counts.values()) - min(counts.values()) > 1


class FailOvers:
    """What a container does as others are silent, or are back: the first of those that are alive acts for all."""

    def __init__(
        self,
        plan: Plan,
        system: ProducingSystem,
        run: str,
        container: int,
        standbys: int,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self._plan, self._system, self._run = plan, system, run
        self._container, self._standbys, self._machine = container, standbys, machine
        self._alive: frozenset[int] = frozenset()
        self._since = machine.clock()

    def silent(self, container: int, alive: Collection[int]) -> None:
        """Give the tasks of a silent container to those that are alive."""
        if self._container == min(alive, default=None):
            with suppress(TakenOver):  # another one does it, or the container has just started again
                tasks = fail_over(self._plan, self._system, self._run, container, alive, self._standbys, self._machine)
                if tasks:
                    text = "container %d of pipeline %r is silent: others go on with its %s"
                    _log.warning(text, container, self._plan.name, plural(len(tasks), "task"))

    def turn(self, alive: Collection[int]) -> None:
        """Even the tasks out once the same containers have been alive for a while."""
        now = self._machine.clock()
        if frozenset(alive) != self._alive:
            self._alive, self._since = frozenset(alive), now
        elif self._container == min(alive) and now - self._since > BACK_SECONDS:
            self._since = now
            even_out(self._plan, self._system, self._run, self._machine)

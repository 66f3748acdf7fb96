"""The handovers of a container: which tasks it takes over, and which it commits for the last time."""

from collections.abc import Callable, Collection

from ....planner.plan import Plan
from ....planner.task_assignment import stages_of, tasks_of
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..coordination.assignments import Assignment, Presence
from ..coordination.membership import PlaceGuard
from ..open_tasks import TaskOpener
from ..task import LocalTask
from .warm_up import WarmUp

MOVING_SECONDS = 0.05
"""The least time between two looks at the coordinator stream while tasks move."""

MakeWarmUp = Callable[[Assignment, frozenset[str], dict[str, int], Presence | None], WarmUp]
"""Takes the assignment, the tasks that the container runs, the numbers of the last commits of those that it gave away,
and the presence that says that it follows the assignment."""


class TaskMoves:
    """Follows the assignment of a run. While tasks are not where it wants them, a warm-up restores those that this
    container is to get; those that it is to give away leave once their next container is ready (ADR 0052).

    1. The next container restores the state of a task while the old one goes on, and says that it is ready.
    2. The old container commits the task for the last time; that checkpoint names the next container.
    3. The next container reads that checkpoint, restores what came since, and goes on.

    A container that is about to hand a task over may not have read yet that this is taken back. So no container takes
    tasks for settled before all others have said that they follow the last assignment.

    No step needs a clock or an answer in time: a container that dies at any of them is started again, reads from the
    checkpoints which tasks it has, and goes on with them.
    """

    def __init__(self, guard: PlaceGuard, opener: TaskOpener, make_warm_up: MakeWarmUp) -> None:
        self._guard = guard
        self._opener = opener
        self._make_warm_up = make_warm_up
        self._container = guard.membership.container
        self._assignment: Assignment | None = None
        self._warm_up: WarmUp | None = None
        self._parted: dict[str, int] = {}

    @property
    def moving(self) -> bool:
        """Whether tasks are not where the assignment wants them, as far as this container knows."""
        return self._warm_up is not None

    @property
    def size(self) -> tuple[int, int]:
        """The generation, and the number of containers that the run has from then on."""
        assignment, member = self._guard.assignment, self._guard.membership
        return (member if assignment is None else assignment).generation, self._containers

    @property
    def _containers(self) -> int:
        assignment, member = self._guard.assignment, self._guard.membership
        return member.containers if assignment is None else assignment.containers

    def gained(self, have: Collection[LocalTask]) -> list[LocalTask]:
        """The tasks that have become this container's since the last call. `have` are the tasks that it runs."""
        assignment = self._guard.assignment
        if assignment is not self._assignment and assignment is not None:
            self._follow(assignment, have)
        if self._warm_up is None:
            return []
        self._warm_up.all_follow = self._guard.all_follow
        settled = self._warm_up.settled  # before the last tasks are taken, which come before it is settled
        gained = self._opener.open_all(self._warm_up.take())
        if settled:
            self.close()
        return gained

    def leave(self, tasks: Collection[LocalTask]) -> None:
        """Let those tasks leave with their next commit that another container is ready for."""
        assignment = self._assignment
        if assignment is None or self._warm_up is None:
            return
        readiness = self._guard.readiness
        for task in tasks:
            container = assignment.tasks[task.name]
            ready = readiness.get(container)
            if container == self._container or ready is None or ready.generation != assignment.generation:
                continue
            if task.name in ready.tasks and not task.leaves:
                task.leave_to((assignment.run, container))

    def part_with(self, tasks: Collection[LocalTask]) -> None:
        """Note that these tasks have been committed for the last time."""
        self._parted |= {task.name: task.number for task in tasks}

    def is_over(self, have: Collection[str]) -> bool:
        """Whether this container is one too many, has given all of its tasks away, and may end."""
        if self._container < self._containers or have or self._assignment is None:
            return False
        return not self.moving and not self._guard.membership.stays

    def close(self) -> None:
        """End the warm-up."""
        if self._warm_up is not None:
            self._warm_up.close()
            self._warm_up = None

    def _follow(self, assignment: Assignment, have: Collection[LocalTask]) -> None:
        first = self._assignment is None and not assignment.epoch
        self.close()
        self._assignment = assignment
        for task in have:
            task.leave_to(None)  # where to was decided by the assignment before
        if not first:  # at the begin of a run every task is where it belongs
            presence, names = self._guard.follow(assignment), frozenset(task.name for task in have)
            self._warm_up = self._make_warm_up(assignment, names, dict(self._parted), presence)
            self._warm_up.start()


def in_order(plan: Plan, tasks: Collection[LocalTask]) -> list[LocalTask]:
    """Tasks in the order of the plan, in which a container runs them."""
    order = {name: at for at, name in enumerate(tasks_of(stages_of(plan)))}
    return sorted(tasks, key=lambda task: order[task.name])


def task_moves(
    guard: PlaceGuard, opener: TaskOpener, system: ProducingSystem, machine: Machine = THIS_MACHINE
) -> TaskMoves:
    """The handovers of a container on a system that has changelogs."""
    pipeline, container = opener.run.plan.name, guard.membership.container

    def make(assignment: Assignment, have: frozenset[str], parted: dict[str, int], presence: Presence | None) -> WarmUp:
        return WarmUp(pipeline, container, assignment, system, have, opener.prepare, parted, presence, machine)

    return TaskMoves(guard, opener, make)

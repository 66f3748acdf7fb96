"""The handovers of a container: which tasks it takes over, and which it commits for the last time."""

from collections.abc import Callable, Collection, Iterable

from ....planner.task_assignment import is_whole
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from ..commit.contract import TaskCommit
from ..coordination.assignments import Assignment, Presence
from ..coordination.membership import MembershipGuard
from ..observe.size_progress import SizeProgress
from ..open_tasks import TaskOpener
from ..task import LocalTask
from ..task_setup import TaskSetup
from .fail_over_watch import FailOverWatch
from .owners import Future, future_of
from .standbys import StandbyCopies
from .task_merges import TaskMerges
from .warm_up import WarmUp

# A task stands still from its last commit here until its next container has read of it: for a look or two.
MOVING_SECONDS = 0.05
"""The least time between two looks at the coordinator stream while tasks move."""
STANDBY_SECONDS = 0.1
"""The least time between two of these looks where this container may have to take tasks over."""

MakeWarmUp = Callable[[Assignment, frozenset[str], dict[str, int], Presence | None], WarmUp]
"""Takes the assignment, the tasks that the container runs, the numbers of the last commits of those that it gave away,
and the presence that says that it follows the assignment."""


class TaskMoves:
    """Follows the assignment of a run. While tasks are not where it wants them, a warm-up restores those that this
    container is to get; those that it is to give away leave once their next container is ready (ADR 0052).

    1. The next container restores the state of a task while the old one goes on, and says that it is ready.
    2. The old container commits the task for the last time; that checkpoint names the next container.
    3. The next container reads that checkpoint, restores what came since, and goes on.

    A task that is to be split is committed for the last time once the containers of all of its parts are ready; that
    commit replaces its checkpoint by those of the parts. Tasks that are to be merged first move to one container, and
    reach the same offsets there (`TaskMerges`).

    A container may be about to hand a task over since it has not read yet that the change is taken back. So a container
    counts tasks as settled only after all others have said that they follow the last assignment.

    No step needs a clock or an answer in time: a container that dies at any of them is started again, reads from the
    checkpoints which tasks it has, and goes on with them.
    """

    def __init__(
        self,
        guard: MembershipGuard,
        opener: TaskOpener,
        make_warm_up: MakeWarmUp,
        machine: Machine = THIS_MACHINE,
        standbys: StandbyCopies | None = None,
        watch: FailOverWatch | None = None,
        *,
        settled: bool = True,
    ) -> None:
        """`settled` says that each task was where the assignment wants it as the container was opened."""
        self._guard = guard
        self._opener = opener
        self._make_warm_up = make_warm_up
        self._container = guard.membership.container
        self._assignment: Assignment | None = None
        self._warm_up: WarmUp | None = None
        self._settled = settled
        self._parted: dict[str, int] = {}
        self._merges = TaskMerges(opener.run.plan, machine.clock)
        self._future: tuple[frozenset[str], Future] | None = None
        self._standbys, self._watch = standbys, watch
        self._copying: frozenset[int] | None = None

    def start(self) -> None:
        """Begin to copy the state of tasks, where there are standbys."""
        if self._standbys is not None:
            self._standbys.start()

    @property
    def check_seconds(self) -> float | None:
        """The least time between two looks at the coordinator stream, where it is looked at more often than usual."""
        if self.moving:
            return MOVING_SECONDS
        return None if self._standbys is None else STANDBY_SECONDS

    @property
    def moving(self) -> bool:
        """Whether tasks are not where the assignment wants them, as far as this container knows."""
        return self._warm_up is not None

    @property
    def settled(self) -> bool:
        """Whether tasks are where the last assignment wants them, as far as this container knows."""
        return not self.moving and self._guard.assignment is self._assignment

    @property
    def size(self) -> SizeProgress:
        """The size that the run is to have."""
        assignment, member = self._guard.assignment, self._guard.membership
        generation = (member if assignment is None else assignment).generation
        return SizeProgress(generation, self._containers, self._guard.sizing)

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
            if self._standbys is not None and self._copying != self._copying_now:  # others can keep copies than before
                self._keep_copies([task.name for task in have], settled=True)
            return []
        # Handed over rather than asked for: the thread of the warm-up must not read what this thread changes.
        self._warm_up.all_follow = self._guard.all_follow
        settled = self._warm_up.settled  # before the last tasks are taken, which come before it is settled
        gained = self._opener.open_all(self._warm_up.take(), taken_over=True)
        self._follow_with(gained)
        if settled:
            self._end_warm_up()
            self._keep_copies([task.name for task in (*have, *gained)], settled=True)
        return gained

    def leave(self, tasks: Collection[LocalTask]) -> None:
        """Let tasks leave with their next commit: those for which their next containers are ready, and those that are
        ready to be split or merged."""
        assignment = self._assignment
        if assignment is None or self._warm_up is None:
            return
        by_name = {task.name: task for task in tasks}
        future = self._future_of(assignment, frozenset(by_name))
        for name, parts in future.splits.items():
            self._leave(by_name[name], assignment, parts)
        for name, container in future.moves.items():
            if container != self._container:
                self._leave(by_name[name], assignment, [name], container)
        for name, parts in future.merges.items():
            own = assignment.tasks[name] == self._container and is_whole(name, parts)
            if own and self._is_ready(assignment, name, self._container):
                owner = assignment.run, self._container
                self._merges.bring_together(name, [by_name[part] for part in parts], owner)

    def _leave(self, task: LocalTask, assignment: Assignment, news: Collection[str], to: int | None = None) -> None:
        """Let a task leave if the containers that are to have the tasks that go on from it are ready."""
        owners = {new: assignment.tasks[new] if to is None else to for new in news}
        # All of them: a part that nobody is ready for would stand still until its state is restored.
        if not task.leaves and all(self._is_ready(assignment, new, owner) for new, owner in owners.items()):
            task.leave_to({new: (assignment.run, owner) for new, owner in owners.items()})

    def _is_ready(self, assignment: Assignment, task: str, container: int) -> bool:
        ready = self._guard.readiness.get(container)
        return ready is not None and ready.generation == assignment.generation and task in ready.tasks

    def _future_of(self, assignment: Assignment, tasks: frozenset[str]) -> Future:
        if self._future is None or self._future[0] != tasks:
            self._future = tasks, future_of(assignment, tasks)
        return self._future[1]

    def checked(self, commits: Iterable[TaskCommit]) -> list[TaskCommit]:
        """The commits. They merge tasks where that is possible now."""
        return self._merges.checked(commits)

    def end_merges(self) -> None:
        """Bring no tasks together for now: some are opened again."""
        self._merges.end()

    def part_with(self, tasks: Collection[LocalTask]) -> None:
        """Note that these tasks have been committed for the last time, and close their stores."""
        for task in tasks:
            self._opener.closer.close(task.name, task.setup.store.close)
        # By the number of the last commit: brokers may show the checkpoint before it for a while, by which the task is
        # still here.
        self._parted |= {task.name: task.number for task in tasks}
        self._merges.forget(tasks)

    def is_over(self, have: Collection[str]) -> bool:
        """Whether this container is one too many, has given all of its tasks away, and may end."""
        if self._container < self._containers or have or self._assignment is None:
            return False
        return not self.moving and not self._guard.membership.stays

    def close(self, *, ended: bool = False) -> None:
        """End all that runs beside the container, which has `ended` in good order or not."""
        # First: it says that this container ends in good order, before others find it silent and take its tasks.
        if self._watch is not None:
            self._watch.close(ended=ended)
        self._end_warm_up()
        if self._standbys is not None:
            self._standbys.close()
        # A store that is still being closed holds its lock: a next run, in this process too, could not open it.
        self._opener.closer.wait_for_all()

    @property
    def _copying_now(self) -> frozenset[int]:
        """The containers that can keep copies."""
        return frozenset([self._container, *self._guard.sending])

    def _keep_copies(self, running: Iterable[str], *, settled: bool = False) -> None:
        if self._standbys is not None and self._assignment is not None:
            self._copying = self._copying_now
            self._standbys.follow(self._assignment, running, self._copying, settled=settled)

    def _end_warm_up(self) -> None:
        if self._warm_up is not None:
            self._warm_up.close()
            self._warm_up = None

    def _follow(self, assignment: Assignment, have: Collection[LocalTask]) -> None:
        first = self._assignment is None and self._settled and not assignment.epoch
        self._end_warm_up()
        # The tasks of a merge are held at an offset, and would stay there if the new assignment does not want it.
        self._merges.end()
        self._assignment, self._future = assignment, None
        self._follow_with(have)
        for task in have:
            task.leave_to({})  # its next container was chosen by the assignment before
        self._keep_copies([task.name for task in have], settled=first)
        if not first:  # at the begin of a run every task is where it belongs
            presence, names = self._guard.follow(assignment), frozenset(task.name for task in have)
            self._warm_up = self._make_warm_up(assignment, names, dict(self._parted), presence)
            self._warm_up.start()

    def _follow_with(self, tasks: Iterable[LocalTask]) -> None:
        for task in tasks:
            if self._assignment is not None:
                task.generation = self._assignment.generation


def task_moves(
    guard: MembershipGuard,
    opener: TaskOpener,
    system: System,
    *,
    settled: bool,
    machine: Machine = THIS_MACHINE,
    watch: FailOverWatch | None = None,
) -> TaskMoves:
    """The handovers of a container on a system that has changelogs; see `TaskMoves` for `settled`. With a `watch` it
    keeps copies of tasks of others."""
    assert isinstance(system, ProducingSystem)
    plan, settings, container = opener.run.plan, opener.run.settings, guard.membership.container
    pipeline, standbys = plan.name, None
    if watch is not None:
        number, remove = settings.standbys, opener.remove_others
        standbys = StandbyCopies(system, pipeline, container, number, opener.prepare, machine, remove)
        watch.failing = lambda: standbys.failing

    def make(assignment: Assignment, have: frozenset[str], parted: dict[str, int], presence: Presence | None) -> WarmUp:
        check, remove = opener.refuse_newer, opener.remove_others
        return WarmUp(pipeline, container, assignment, system, have, prepare, check, parted, presence, remove, machine)

    def prepare(task: str) -> TaskSetup:
        copy = None if standbys is None else standbys.release(task)
        return copy or opener.prepare(task)

    return TaskMoves(guard, opener, make, machine, standbys, watch, settled=settled)

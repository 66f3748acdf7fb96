"""Restores the tasks that a container is to get, in a thread, while their containers go on with them."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from queue import SimpleQueue
from threading import Event, Thread

from ....dsl.errors import SystemProblem
from ....planner.task_assignment import TaskId, is_whole
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from ..checkpoints.rescaled import rescaled
from ..commit.restore import RESTS, StoreRestorer
from ..coordination.assignments import Assignment, Presence, Readiness
from ..coordination.coordinator_stream import Coordinator
from ..task_setup import TaskSetup
from .checkpoint_follower import CheckpointFollower
from .owners import Owners, future_of, last_numbers, owned_by, owners_of, unsettled

POLL_SECONDS = 0.05
"""Seconds that the thread waits for checkpoints before it does anything else. A task that is handed over waits as
long."""
# Each pass costs requests to brokers, for changelogs of which little has changed.
PASS_SECONDS = 1.0
"""The least time between two restores of a task that another container still has."""
RETRY_SECONDS = 10.0
"""Seconds after which a restore that has failed is tried again."""
READY_SECONDS = 0.5
"""Tasks are ready to be taken over once restoring all of them takes at most so many seconds: the last restore will take
less."""
SHORTER = 0.9
"""Tasks are ready, too, once a restore takes more than this fraction of the time of the one before: the next ones would
not be much faster, since brokers are slow, or state changes as fast as it is restored."""

_log = logging.getLogger(__name__)

Taken = tuple[TaskSetup, Checkpoint]
"""A task that is this container's now, with its store at its last checkpoint."""


class _Stopped(Exception):
    """The warm-up is no longer wanted."""


class WarmUp:
    """Follows the checkpoints of a pipeline until each task is where the assignment wants it, and takes tasks over.

    `have` are the tasks that the container runs, and `prepare` opens the store of another one. `check` raises for the
    checkpoint of a task whose state means something else here. `parted` are the numbers of the last commits of tasks
    that it gave away, and `presence` says that it follows the assignment. `remove_others` is given the tasks that there
    are, and removes the stores of all others. `take` returns each task that has become this container's once, to the
    thread of the container, which from then on closes its store. `close` closes the stores of the tasks that were not
    taken.
    """

    def __init__(
        self,
        pipeline: str,
        container: int,
        assignment: Assignment,
        system: ProducingSystem,
        have: frozenset[str],
        prepare: Callable[[str], TaskSetup],
        check: Callable[[str, Checkpoint], None],
        parted: Mapping[str, int],
        presence: Presence | None,
        remove_others: Callable[[Collection[str]], None],
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self.assignment = assignment
        self.settled = False
        """Whether each task is where the assignment wants it, and stays there."""
        self.all_follow = False
        """Whether all other containers follow the assignment. The thread of the container says so."""
        self._pipeline = pipeline
        self._container = container
        self._system = system
        self._have = set(have)
        self._prepare = prepare
        self._check = check
        self._parted = parted
        self._presence = presence
        self._remove_others = remove_others
        self._incarnation = "" if presence is None else presence.incarnation
        self._machine = machine
        self._taken: SimpleQueue[Taken] = SimpleQueue()
        self._waiting: dict[str, TaskSetup] = {}
        self._restored: dict[str, Checkpoint] = {}
        self._ready: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._last_took = float("inf")
        self._next_pass = self._next_warning = 0.0
        resting = replace(THIS_MACHINE, wall=machine.wall, sleep=self._wait)
        restorer = partial(StoreRestorer, system, self._on_restore, resting, live=True)
        self._restorer, self._resting_restorer = restorer(), restorer(rests=RESTS)
        self._follower: CheckpointFollower | None = None
        self._stop = Event()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="fluvial-warm-up", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def take(self) -> list[Taken]:
        """The tasks that have become this container's since the last call. Raises what has ended the thread."""
        if self._failure is not None:
            raise self._failure  # `close` closes the stores of what was not taken
        return self._drained()

    def _drained(self) -> list[Taken]:
        """Empty the queue, and return what was in it. Only one thread takes from it, so nothing is lost in between."""
        return [self._taken.get() for _ in range(self._taken.qsize())]

    def close(self) -> None:
        """End the thread, and close the stores of tasks that were not taken."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for setup in (*(setup for setup, _ in self._drained()), *self._waiting.values()):
            setup.store.close()
        self._waiting.clear()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self.settled:
                self.turn()
        except _Stopped:
            pass
        # Raised by `take`: in the thread nobody would see it.
        except BaseException as error:
            self._failure = error
        finally:
            if self._follower is not None:
                self._follower.close()

    def turn(self) -> None:
        """Read the checkpoints that were written since the last turn, and do what they ask for."""
        all_follow = self.all_follow  # before checkpoints are read: what was handed over until then is among them
        if self._follower is None:
            self._follower = CheckpointFollower(self._system, self._pipeline)
        else:
            self._follower.read(POLL_SECONDS)
        checkpoints = self._follower.checkpoints
        last = last_numbers(self._parted, checkpoints)
        if any(last[task] < least for task, least in self._parted.items()):
            return  # brokers show a commit some time after it: tasks that were given away would seem to be here still
        # Behind that: whoever reads that this container follows counts on the commits by which it gave tasks away.
        if self._presence is not None:
            Coordinator(self._system, self._pipeline, self._machine).write(self._presence)
            self._presence = None
        owners = owners_of(self.assignment, checkpoints)
        all_read = self._take_own(owners, checkpoints)
        try:
            self._restore_next(owners, checkpoints)
        except _Stopped:
            raise
        except Exception as error:
            self._put_off(error)
        if all_follow and all_read and not unsettled(self.assignment, owners) and self._stays_settled():
            # Only now: until it is settled a task may be given back, and its store here would spare a whole restore.
            self._remove_others(self.assignment.tasks)
            self.settled = True

    def _stays_settled(self) -> bool:
        """Whether each task is where the assignment wants it by all commits that there are now, of which some may not
        have been followed yet."""
        return not unsettled(self.assignment, owners_of(self.assignment, checkpoints_in(self._system, self._pipeline)))

    def _take_own(self, owners: Mapping[str, int], checkpoints: Checkpoints) -> bool:
        """Take over the tasks that are this container's now. Returns whether it can read the state of all of them. A
        task whose state it cannot read waits until a newer version of this container runs, and ends nothing that runs
        here."""
        unread: Exception | None = None
        for task in owned_by(self._container, owners) - self._have:
            try:
                self._check(task, checkpoints.get(task, Checkpoint()))
            except SystemProblem as problem:
                unread = problem
                continue
            setup = self._setup(task)
            restored, _ = self._restorer.restore([setup], checkpoints)
            self._have.add(task)
            # Before it is queued: whoever takes it owns its store, and `close` closes those that are left here.
            del self._waiting[task]
            self._taken.put((setup, restored[task]))
        if unread is not None and self._machine.clock() >= self._next_warning:
            self._next_warning = self._machine.clock() + RETRY_SECONDS
            _log.warning("container %d has tasks that it cannot read, which wait: %s", self._container, unread)
        return unread is None

    def _restore_next(self, owners: Owners, checkpoints: Checkpoints) -> None:
        """Restore the tasks that the container is to get, and say that it is ready once little of them was left to
        restore."""
        began = self._machine.clock()
        if began < self._next_pass:
            return
        sources = self._sources(owners)
        wanted = frozenset(sources)
        if not wanted:
            return
        if not wanted <= self._wanted:
            self._last_took = float("inf")  # a task that is new here has all of its state to restore
        self._wanted = wanted
        known = {task: _known(task, parts, checkpoints) for task, parts in sources.items()}
        for part in sorted({*chain.from_iterable(sources.values())}):
            self._check(part, checkpoints.get(part, Checkpoint()))
        behind = [task for task in sorted(wanted) if self._restored.get(task) != known[task]]
        self._resting_restorer.restore([self._setup(task) for task in behind], known)
        self._restored |= known
        now = self._machine.clock()
        self._next_pass = now + PASS_SECONDS
        took, before = now - began, self._last_took
        self._last_took = took
        if wanted <= self._ready:
            return
        # Measured by time, not by what is left: a changelog that others write to is never read to its end.
        if took <= READY_SECONDS or took > SHORTER * before:
            self._ready = wanted
            self._say_ready(sorted(wanted))
        else:
            self._next_pass = now

    def _sources(self, owners: Owners) -> dict[str, tuple[str, ...]]:
        """The tasks that the container is to get, or that are to come here of a split or a merge, each with the tasks
        that it goes on from."""
        future, here = future_of(self.assignment, owners), self._container
        sources: dict[str, tuple[str, ...]] = {
            task: (task,) for task, to in future.moves.items() if to == here != owners[task] and task not in self._have
        }
        for task, parts in future.splits.items():
            sources |= {part: (task,) for part in parts if self.assignment.tasks[part] == here}
        for task, parts in future.merges.items():
            if self.assignment.tasks[task] == here and is_whole(task, [one for one in parts if owners[one] == here]):
                sources[task] = parts
        return sources

    def _put_off(self, error: Exception) -> None:
        """Note that tasks of other containers are to be restored later: that this has failed ends nothing that runs
        here."""
        self._next_pass = self._machine.clock() + RETRY_SECONDS
        _log.warning(
            "container %d cannot restore the tasks that it is to get, and tries again in %g s; until then their "
            "containers go on with them: %s",
            self._container,
            RETRY_SECONDS,
            error,
        )

    def _setup(self, task: str) -> TaskSetup:
        if task not in self._waiting:
            self._waiting[task] = self._prepare(task)
        return self._waiting[task]

    def _say_ready(self, tasks: list[str]) -> None:
        generation = self.assignment.generation
        ready = Readiness(container=self._container, generation=generation, incarnation=self._incarnation, tasks=tasks)
        Coordinator(self._system, self._pipeline, self._machine).write(ready)

    def _on_restore(self, restored: int, left: int) -> None:
        del restored, left
        if self._stop.is_set():
            raise _Stopped

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped


def _known(task: str, sources: Sequence[str], checkpoints: Checkpoints) -> Checkpoint:
    """The last checkpoint of a task, or what it would be if the task took the place of others now."""
    if task in sources:
        return checkpoints.get(task, Checkpoint())
    id = TaskId.parse(task)
    return rescaled([*map(TaskId.parse, sources)], [id], checkpoints).get(id, Checkpoint())

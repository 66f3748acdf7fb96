"""Keeps warm copies of the state of tasks that other containers run, so that this one can take them over at once."""

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from threading import Condition, Event, Thread

from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import Checkpoint
from ..commit.restore import RESTS, StoreRestorer
from ..coordination.assignments import Assignment
from ..task_setup import TaskSetup
from .checkpoint_follower import CheckpointFollower

PASS_SECONDS = 0.5
"""The least time between two looks at what tasks have committed."""
RETRY_SECONDS = 10.0
"""Seconds after which a copy that has failed is tried again."""

_log = logging.getLogger(__name__)


def standbys_of(
    assignment: Assignment, number: int, copying: Collection[int] | None = None
) -> dict[str, tuple[int, ...]]:
    """The containers that keep copies of each task, `number` of them. The first is to take the task over.

    Copies of the tasks of one container are spread over the other containers. The same arguments give the same result.
    `copying` are the containers that can keep copies, None for all; when one of them goes, copies in the others stay
    where they are. Containers beyond the number that the run is to have come last."""
    copies: dict[str, tuple[int, ...]] = {}
    counts: dict[int, int] = {}
    more = [] if copying is None else sorted(one for one in copying if one >= assignment.containers)
    for task, owner in assignment.tasks.items():
        others = [one for one in range(assignment.containers) if one != owner]
        at = counts[owner] = counts.get(owner, -1) + 1
        turned = [others[(at + step) % len(others)] for step in range(len(others))] if others else []
        able = [one for one in (*turned, *more) if one != owner and (copying is None or one in copying)]
        copies[task] = tuple(able[:number])
    return copies


class _Interrupted(Exception):
    """Another thread waits for the copy at hand: stop working on it."""


class StandbyCopies:
    """Copies the state of tasks in a thread. A copy that is to become a task is given out with `release`; it is not
    made again until `follow` is called. `prepare` opens the store of a task, and `remove_others` removes all stores
    here but those of the tasks that it is given.

    A copy that fails, for example since the disk is full, is tried again later. It neither ends tasks that run here nor
    delays other copies.
    """

    def __init__(
        self,
        system: ProducingSystem,
        pipeline: str,
        container: int,
        number: int,
        prepare: Callable[[str], TaskSetup],
        machine: Machine = THIS_MACHINE,
        remove_others: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        self.number = number
        self._system = system
        self._pipeline = pipeline
        self._container = container
        self._prepare, self._remove_others = prepare, remove_others
        self._machine = machine
        self._stop = Event()
        self._free = Condition()
        self._wanted: frozenset[str] = frozenset()
        self._given: set[str] = set()
        self._keep: frozenset[str] | None = None
        self._copying: str | None = None
        self._copies: dict[str, TaskSetup] = {}
        self._copied: dict[str, Checkpoint] = {}
        self._retry_at: dict[str, float] = {}
        """The tasks whose copies have failed, and when they are tried again."""
        self._restorer = StoreRestorer(
            system, self._on_restore, replace(THIS_MACHINE, wall=machine.wall, sleep=self._wait), live=True, rests=RESTS
        )
        self._follower: CheckpointFollower | None = None
        self._thread = Thread(target=self._run, name="fluvial-standbys", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    @property
    def failing(self) -> Collection[str]:
        """The tasks whose copies have failed here: other containers are to take these over. Any thread may ask."""
        return frozenset(self._retry_at.copy()) & self._wanted

    def follow(
        self,
        assignment: Assignment,
        running: Iterable[str],
        copying: Collection[int] | None = None,
        *,
        settled: bool = False,
    ) -> None:
        """Copy what an assignment wants here, except the tasks that run here, and drop the other copies. `copying` are
        the containers that can keep copies. Once the tasks are `settled`, the stores of all others are removed."""
        copies = standbys_of(assignment, self.number, copying)
        with self._free:
            here = frozenset(running)
            # All that was given out may be wanted as a copy again, but for what runs here: two must not write to one
            # store.
            self._given = {*here}
            wanted = {task for task, at in copies.items() if self._container in at}
            # What this container is to have is followed until it is given out.
            to_get = {task for task in self._copies if assignment.tasks.get(task) == self._container}
            self._wanted = frozenset(wanted | to_get)
            # The one at work may be new, and not among the copies yet.
            at_work = {self._copying} if self._copying is not None else set()
            for task in {*self._copies, *at_work}:
                if task not in self._wanted or task in self._given:
                    self._drop(task)
            mine = {task for task, owner in assignment.tasks.items() if owner == self._container}
            # Removed in the thread, later: it may be at work in one of these stores.
            self._keep = self._wanted | here | mine if settled else None

    def release(self, task: str) -> TaskSetup | None:
        """Give a copy out; None where there is none. If the thread is working on this copy, it is interrupted and
        waited for."""
        with self._free:
            self._await(task)
            self._retry_at.pop(task, None)
            return self._copies.pop(task, None)

    def close(self) -> None:
        """End the thread, and close the copies."""
        self._stop.set()
        with self._free:
            self._free.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        with self._free:
            for task in [*self._copies]:
                self._drop(task)

    def _await(self, task: str) -> None:
        self._given.add(task)
        self._free.notify_all()
        # The thread lets go at its next batch. Until then it writes to the store that is about to be opened as a
        # task's.
        self._free.wait_for(lambda: self._copying != task)
        self._copied.pop(task, None)

    def _drop(self, task: str) -> None:
        self._await(task)
        if (setup := self._copies.pop(task, None)) is not None:
            setup.store.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn_safely()
        finally:
            if self._follower is not None:
                self._follower.close()

    def _turn_safely(self) -> None:
        try:
            self.turn()
        except Exception as error:
            text = "container %d cannot see what tasks have committed, so that it copies nothing, and tries again in "
            _log.warning(text + "%g s; nothing else waits for it: %s", self._container, RETRY_SECONDS, error)
            if (follower := self._follower) is not None:
                self._follower = None
                with suppress(Exception):  # what is closed has failed already
                    follower.close()
            self._stop.wait(RETRY_SECONDS)

    def turn(self) -> None:
        """Copy what tasks have committed since the last turn."""
        if self._follower is None:
            self._follower = CheckpointFollower(self._system, self._pipeline)
        else:
            self._follower.read(PASS_SECONDS)
        for task in sorted(self._wanted):
            known = self._follower.checkpoints.get(task)
            if known is not None and self._begins(task):
                try:
                    self._copy_safely(task, known)
                finally:
                    self._ends()
        self._tidy()

    def _tidy(self) -> None:
        """Remove the stores of tasks that have moved away, and of copies that are no longer wanted."""
        with self._free:
            keep, self._keep = self._keep, None
        if keep is not None and self._remove_others is not None:
            self._remove_others(keep)

    def _begins(self, task: str) -> bool:
        """Note that the thread works on a task from now on. Returns False, and does not, if the task is given out, is
        no longer wanted, or is to be tried later."""
        with self._free:
            if task in self._given or task not in self._wanted:
                return False
            if self._machine.clock() < self._retry_at.get(task, float("-inf")):
                return False
            self._copying = task
            return True

    def _ends(self) -> None:
        with self._free:
            self._copying = None
            self._free.notify_all()

    def _copy_safely(self, task: str, known: Checkpoint) -> None:
        try:
            self._copy(task, known)
            self._retry_at.pop(task, None)
        except _Interrupted:
            pass
        except Exception as error:
            if task not in self._retry_at:
                text = "container %d cannot copy the state of task %s, and tries again every %g s; nothing else waits "
                _log.warning(text + "for it: %s", self._container, task, RETRY_SECONDS, error)
            self._retry_at[task] = self._machine.clock() + RETRY_SECONDS
            self._copied.pop(task, None)
            if (setup := self._copies.pop(task, None)) is not None:
                with suppress(Exception):  # closing it may be what fails
                    setup.store.close()

    def _copy(self, task: str, known: Checkpoint) -> None:
        if self._copied.get(task) == known:
            return
        setup = self._copies.get(task)
        if setup is None:
            setup = self._copies[task] = self._prepare(task)
        self._restorer.restore([setup], {task: known})
        self._copied[task] = known

    def _on_restore(self, restored: int, left: int) -> None:
        del restored, left
        self._wait(0.0)

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until another thread waits for the copy."""
        with self._free:
            self._free.wait_for(self._is_interrupted, seconds)
            if self._is_interrupted():
                raise _Interrupted

    def _is_interrupted(self) -> bool:
        return self._stop.is_set() or self._copying in self._given

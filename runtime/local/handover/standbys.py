"""Keeps warm copies of the state of tasks that other containers run, so that this one can take them over at once."""

import logging
from collections.abc import Callable, Iterable
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
"""How long after a copy that has failed it is tried again."""
_log = logging.getLogger(__name__)


def standbys_of(assignment: Assignment, number: int) -> dict[str, tuple[int, ...]]:
    """The containers that keep copies of each task, so many: the first of them is to take it over.

    Those of one container are spread over the others. The same arguments give the same containers."""
    copies: dict[str, tuple[int, ...]] = {}
    counts: dict[int, int] = {}
    for task, owner in assignment.tasks.items():
        others = [one for one in range(assignment.containers) if one != owner]
        at = counts[owner] = counts.get(owner, -1) + 1
        turned = [others[(at + step) % len(others)] for step in range(len(others))] if others else []
        copies[task] = tuple(turned[:number])
    return copies


class _Interrupted(Exception):
    """The copy is wanted by somebody else now."""


class StandbyCopies:
    """Copies the state of tasks in a thread. A copy that is to become a task is given out with `release`; it is not
    made again until `follow` is called. `prepare` opens the store of a task.

    What cannot be copied, for example since the disk is full, is tried again later, and ends nothing that runs here.
    """

    def __init__(
        self,
        system: ProducingSystem,
        pipeline: str,
        container: int,
        number: int,
        prepare: Callable[[str], TaskSetup],
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self.number = number
        self._system = system
        self._pipeline = pipeline
        self._container = container
        self._prepare = prepare
        self._machine = machine
        self._stop = Event()
        self._free = Condition()
        self._wanted: frozenset[str] = frozenset()
        self._given: set[str] = set()
        self._copying: str | None = None
        self._copies: dict[str, TaskSetup] = {}
        self._copied: dict[str, Checkpoint] = {}
        self._restorer = StoreRestorer(
            system, self._on_restore, lambda: machine.wall() / 1000, self._wait, live=True, rests=RESTS
        )
        self._follower: CheckpointFollower | None = None
        self._thread = Thread(target=self._run, name="fluvial-standbys", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def follow(self, assignment: Assignment, running: Iterable[str]) -> None:
        """Copy what an assignment wants here, except the tasks that run here, and drop the other copies."""
        copies = standbys_of(assignment, self.number)
        with self._free:
            self._given = {*running}
            self._wanted = frozenset(task for task, places in copies.items() if self._container in places)
            for task in [*self._copies]:
                if task not in self._wanted or task in self._given:
                    self._drop(task)

    def release(self, task: str) -> TaskSetup | None:
        """Give a copy out; None where there is none. Waits while the thread is at it."""
        with self._free:
            self._given.add(task)
            self._free.wait_for(lambda: self._copying != task)
            self._copied.pop(task, None)
            return self._copies.pop(task, None)

    def close(self) -> None:
        """End the thread, and close the copies."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._free:
            for task in [*self._copies]:
                self._drop(task)

    def _drop(self, task: str) -> None:
        self._given.add(task)
        self._free.wait_for(lambda: self._copying != task)
        self._copied.pop(task, None)
        self._copies.pop(task).store.close()

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
        except _Interrupted:
            pass
        except Exception as error:
            text = "container %d cannot copy the state of tasks, and tries again in %g s; nothing else waits for it: %s"
            _log.warning(text, self._container, RETRY_SECONDS, error)
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
                    self._copy(task, known)
                finally:
                    self._ends()

    def _begins(self, task: str) -> bool:
        """Begin with a task, unless it is given out or no longer wanted."""
        with self._free:
            if task in self._given or task not in self._wanted:
                return False
            self._copying = task
            return True

    def _ends(self) -> None:
        with self._free:
            self._copying = None
            self._free.notify_all()

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
        if self._stop.wait(seconds) or self._copying in self._given:
            raise _Interrupted

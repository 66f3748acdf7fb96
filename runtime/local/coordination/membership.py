"""The place of a process in a pipeline: which container it is, which tasks it runs, and how it keeps the place."""

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from ....dsl.errors import TakenOver
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.stream_names import coordinator
from ....planner.task_assignment import stages_of, tasks_of
from ...systems.contract import SendingSystem, StreamPartition, System
from ...systems.provisioning import frozen_ends
from .assignments import Assignment, Known, Presence, State, Wanted, begin, joins
from .coordinator_stream import Coordinator, Watch

Ends = dict[StreamPartition, int]

CHECK_SECONDS = 1.0
_log = logging.getLogger(__name__)

STILL_SECONDS = 3.0
"""A container that has not looked for this long may have missed that another has its place."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Which container of how many a process is to be. `run` is the one that a supervisor has begun; without it what
    the coordinator stream says decides, and a single container begins a run of its own."""

    container: int = 0
    containers: int = 1
    run: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """What a container is told at its start. `ends` is where it stops reading sources, if it does.

    `transactional_id` is its own; `fenced` are those of containers whose place it and its like have taken: they must
    be shut out before checkpoints are read. `done` says that an earlier process has done the container's part of the
    run, so that nothing is left to do.
    """

    container: int
    containers: int
    generation: int
    run: str
    tasks: frozenset[str]
    ends: Ends | None
    transactional_id: str
    fenced: tuple[str, ...] = ()
    done: bool = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, since there are more containers than tasks."""
        return not self.tasks


class Place:
    """A membership that is kept by telling and looking; alone there is nobody to tell."""

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator | None = None,
        presence: Presence | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.membership = membership
        self._coordinator = coordinator
        self._presence = presence
        self._watch = watch
        self._clock = clock
        self._checked = clock()

    def check(self) -> None:
        """Raise TakenOver once another process has this place; looks once a second, however often it is called.

        After a time in which this process stood still, stopped or starved, it makes sure.
        """
        if self._watch is None:
            return
        passed = self._clock() - self._checked
        if passed >= CHECK_SECONDS:
            self._watch.check(wait=passed >= STILL_SECONDS)
            self._checked = self._clock()
            self._answer(self._watch)

    def _answer(self, watch: Watch) -> None:
        """Say that the container is alive, if somebody wants to know."""
        if watch.asked and self._coordinator is not None and self._presence is not None:
            watch.asked = False
            self._coordinator.write(self._presence)

    @property
    def absent(self) -> tuple[int, ...]:
        """The containers that have not started in this run, as far as `check` has seen."""
        return () if self._watch is None else self._watch.absent

    @property
    def unfinished(self) -> tuple[Presence, ...]:
        """The other containers that have started in this run and are not done, as far as `check` has seen."""
        return () if self._watch is None else self._watch.unfinished

    @property
    def incarnation(self) -> str:
        """A name that no other process with this place ever has; empty for one that needs none."""
        return "" if self._presence is None else self._presence.incarnation

    def publishing_beside(self) -> Collection[str] | None:
        """The incarnations of other containers that may have something to publish, None if that is not known now."""
        if self._coordinator is None or self.membership.containers == 1:
            return ()
        known, _ = self._coordinator.read()
        return known.publishing_beside(self.membership.container)

    def tell(self, state: State) -> None:
        """Say what the container has come to: "running" once those before it are shut out and its tasks are there,
        "done" once they have come to the end of the run."""
        if self._coordinator is not None and self._presence is not None:
            if self._watch is not None:
                self._watch.check(wait=True)
            self._presence = replace(self._presence, state=state)
            self._coordinator.write(self._presence)


def transactional_ids(pipeline: str, generation: int, containers: int) -> list[str]:
    """The ids that the containers of a generation write with.

    >>> transactional_ids("visits", 3, 2)
    ['visits-3-0', 'visits-3-1']
    """
    return [f"{pipeline}-{generation}-{container}" for container in range(containers)]


def begin_run(plan: Plan, system: System, containers: int, until: str) -> str:
    """Begin a run for containers that will be started, and say what to call it."""
    run = uuid.uuid4().hex
    wanted = Wanted(stages_of(plan), containers, until)
    ends = _by_stream(_ends(plan, system, until))
    with Coordinator(system, plan.name).settled(lambda known: begin(known, wanted, run, ends)):
        return run


@contextmanager
def join(plan: Plan, system: System, seat: Seat, until: str) -> Iterator[Place]:
    """Take a place, and keep it to others as long as the context lasts.

    A single container on a system that only it can see, or whose streams never had two, needs no coordinator.

    Raises SystemProblem where another process has the place, and `TakenOver` if the run to join is over.
    """
    if not isinstance(system, SendingSystem) and seat.containers == 1:
        with system.claim(plan.name):
            if system.admin().partitions(coordinator(plan.name)) is None:
                yield Place(_alone(plan, system, until))
                return
    with _seated(Coordinator(system, plan.name), plan, system, seat, until) as place:
        yield place


def _alone(plan: Plan, system: System, until: str) -> Membership:
    tasks = frozenset(tasks_of(stages_of(plan)))
    return Membership(0, 1, 0, uuid.uuid4().hex, tasks, _ends(plan, system, until), f"{plan.name}-0-0")


@contextmanager
def _seated(seats: Coordinator, plan: Plan, system: System, seat: Seat, until: str) -> Iterator[Place]:
    run, wanted = uuid.uuid4().hex, Wanted(stages_of(plan), seat.containers, until)
    ends = _by_stream(_ends(plan, system, until))

    def decide(known: Known) -> Assignment:
        last = known.assignment
        if seat.run:
            if last is None or last.run != seat.run:
                raise TakenOver(_over(plan, seat, system))
            return last
        if seat.containers > 1 and last is not None and joins(known, wanted, seat.container, ends):
            # Without checkpoints the pipeline was reset, and has everything before it.
            reset = known.is_done(seat.container) and not _has_checkpoints(plan, system, last, seat.container)
            return begin(known, wanted, run, ends) if reset else last
        return begin(known, wanted, run, ends)

    with ExitStack() as stack:
        with seats.settled(decide) as (assignment, known, read_to):
            if assignment == known.assignment and known.is_done(seat.container):
                _warn_of_more(plan, known, seat, ends)
                yield Place(_membership(plan, assignment, known, seat))
                return
            stack.enter_context(system.claim(plan.name, str(seat.container)))
        presence = Presence(
            container=seat.container,
            generation=assignment.generation,
            run=assignment.run,
            incarnation=uuid.uuid4().hex,
            state="starting",
            process=f"process {os.getpid()} on {socket.gethostname()}",
        )
        seats.write(presence)
        watch = stack.enter_context(closing(seats.watch(read_to, assignment, presence, known)))
        yield Place(_membership(plan, assignment, known, seat), seats, presence, watch)


def _membership(plan: Plan, assignment: Assignment, known: Known, seat: Seat) -> Membership:
    last = known.assignment
    same = last is not None and last.generation == assignment.generation
    before = {} if same and known.settled else assignment.before
    return Membership(
        container=seat.container,
        containers=assignment.containers,
        generation=assignment.generation,
        run=assignment.run,
        tasks=frozenset(task for task, container in assignment.tasks.items() if container == seat.container),
        ends=_by_place(assignment.ends),
        transactional_id=transactional_ids(plan.name, assignment.generation, assignment.containers)[seat.container],
        fenced=tuple(id for old, number in before.items() for id in transactional_ids(plan.name, old, number)),
        done=last == assignment and known.is_done(seat.container),
    )


def _has_checkpoints(plan: Plan, system: System, assignment: Assignment, container: int) -> bool:
    """Whether each task of a container has a checkpoint."""
    tasks = {task for task, owner in assignment.tasks.items() if owner == container}
    return tasks <= system.admin().checkpoints(plan.name).keys()


def _warn_of_more(plan: Plan, known: Known, seat: Seat, ends: dict[str, list[int]] | None) -> None:
    """Log that a container is done with a run which others have still to finish, though there is more to read."""
    last = known.assignment
    if last is None or known.all_done or last.ends == ends:
        return
    others = [number for number in range(last.containers) if not known.is_done(number)]
    _log.warning(
        "container %d of pipeline %r has done its part of the run to the end, and its inputs have grown since\n"
        "  to do: let container %s finish the run, and then start all %d containers again",
        seat.container,
        plan.name,
        ", ".join(map(str, others)),
        last.containers,
    )


def _over(plan: Plan, seat: Seat, system: System) -> str:
    wrong = f"container {seat.container} of pipeline {plan.name!r} on {system.url} has no place: another run has begun"
    remedy = "nothing if the other was started on purpose, else stop one of the two"
    return explain(wrong, "the run that started this container", remedy)


def _ends(plan: Plan, system: System, until: str) -> Ends | None:
    return frozen_ends(plan, system.admin()) if until == "end" else None


def _by_stream(ends: Ends | None) -> dict[str, list[int]] | None:
    if ends is None:
        return None
    by_stream: dict[str, list[int]] = {}
    for (stream, _), end in sorted(ends.items()):
        by_stream.setdefault(stream, []).append(end)
    return by_stream


def _by_place(ends: dict[str, list[int]] | None) -> Ends | None:
    if ends is None:
        return None
    return {(stream, partition): end for stream, offsets in ends.items() for partition, end in enumerate(offsets)}

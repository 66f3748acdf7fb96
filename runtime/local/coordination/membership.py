"""The membership of a process in a run: which container it is, which tasks it runs, and whether it was replaced."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from ....dsl.errors import TakenOver
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.stream_names import coordinator
from ....planner.task_assignment import stages_of, tasks_of
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from ...systems.errors import Fenced
from .assignments import (
    Assignment,
    CoordinatorState,
    OwnersOf,
    Presence,
    Readiness,
    RequestedRun,
    RunPhase,
    SizingRecord,
    begin,
    joined,
    joins,
)
from .coordinator_stream import Coordinator, MembershipMonitor
from .late_coordination import LateCoordination, join_late, starting_presence
from .run_ends import PartitionEnds, by_partition, by_stream, ends_of

# Late is harmless: what a replaced container writes meanwhile is fenced, so sooner would save work alone.
CHECK_SECONDS = 1.0
_log = logging.getLogger(__name__)

STILL_SECONDS = 3.0
"""A container that was paused for this long may have been replaced without noticing it."""


@dataclass(frozen=True, slots=True)
class ContainerId:
    """Which container of how many a process is, counted from 0. `run` is the id of the run that a supervisor has begun.
    Without it a single container begins a run, and one of several joins the last run or begins one (`joins`); with 0
    `containers` it joins a run of any number, which gets more of them if need be (`joined`). A run to the end stops at
    `ends`, if they are given, in place of the ends that its sources have."""

    number: int = 0
    containers: int = 1
    run: str = ""
    ends: PartitionEnds | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """What a container is to do in a run. `ends` are the offsets at which it stops reading its sources, None for never.

    `transactional_id` is that of this container. `fenced` are the transactional ids of the containers that this
    generation replaces: they must be fenced before checkpoints are read. `done` says that an earlier process has done
    the container's part of the run. With `catches_up` the run ends at `ends` without an end of input; with
    `ends_by_drain` its inputs end only if it is drained. A container that `stays` waits without tasks once it is one
    too many: if it ended, whatever has started it would start it again, and it would join again.
    """

    container: int
    containers: int
    generation: int
    run: str
    tasks: frozenset[str]
    ends: PartitionEnds | None
    transactional_id: str
    fenced: tuple[str, ...] = ()
    done: bool = False
    catches_up: bool = False
    ends_by_drain: bool = False
    stays: bool = False

    @property
    def idle(self) -> bool:
        """Whether the container has no tasks, since there are more containers than tasks."""
        return not self.tasks


class MembershipGuard:
    """Keeps a membership: announces the container in the coordinator stream, and checks that no other process has
    replaced it. A container that is alone on its system needs no coordinator."""

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator | None = None,
        presence: Presence | None = None,
        monitor: MembershipMonitor | None = None,
        machine: Machine = THIS_MACHINE,
        silence: timedelta | None = None,
        late: Callable[[], LateCoordination | None] = lambda: None,
    ) -> None:
        """After a `silence` of so long others take the container for dead; None where it sends no heartbeats. `late`
        gives a container that began without a coordinator stream one, once somebody has made it."""
        self._late = late
        self.membership = membership
        self.silence = silence
        self._coordinator = coordinator
        self._presence = presence
        self._monitor = monitor
        self._clock = machine.clock
        self._checked = machine.clock()

    def check(self, interval: float = CHECK_SECONDS) -> None:
        """Raise TakenOver once another process has replaced this container. Checks at most once in so many seconds.

        After a pause of STILL_SECONDS or more it first reads the coordinator stream to its end.
        """
        passed = self._clock() - self._checked
        if self._monitor is None and passed >= interval:
            self._checked = self._clock()
            if (late := self._late()) is not None:
                self._coordinator, self._presence, self._monitor = late
        if self._monitor is None:
            return
        if passed >= interval:
            self._monitor.check(wait=passed >= STILL_SECONDS)
            self._checked = self._clock()
            self._answer(self._monitor)

    def catch_up(self) -> None:
        """Read the coordinator stream to its end. Raise TakenOver if another process has replaced this container."""
        if self._monitor is not None:
            self._monitor.check(wait=True)

    @contextmanager
    def fences_explained(self) -> Iterator[None]:
        """Explain why a system refuses what this container writes. Raises TakenOver if another process has replaced it;
        else SystemProblem, since it stood still for too long, after which it may be started again. If it was taken for
        dead meanwhile, the error says so."""
        try:
            yield
        except Fenced as fenced:
            if self._monitor is None:
                raise
            self._monitor.check(wait=True)
            # Before others take its transactional id from it they write an assignment in which it has no tasks.
            if self.silence is not None and self.membership.container not in self._monitor.assignment.tasks.values():
                raise self._monitor.taken_for_dead() from fenced
            raise fenced.lapsed from fenced

    def _answer(self, monitor: MembershipMonitor) -> None:
        """Write the presence of this container again if a process asks for it."""
        if monitor.liveness_queried and self._coordinator is not None and self._presence is not None:
            monitor.liveness_queried = False
            self._coordinator.write(self._presence)

    @property
    def assignment(self) -> Assignment | None:
        """The assignment of this run, as far as `check` has seen; None without a coordinator."""
        return None if self._monitor is None else self._monitor.assignment

    @property
    def sizing(self) -> SizingRecord | None:
        """What an autosizer has decided last in this run, as far as `check` has seen."""
        return None if self._monitor is None else self._monitor.sizing

    @property
    def drain_ends(self) -> PartitionEnds | None:
        """The offsets at which this run is to end since it drains, as far as `check` has seen; None if it does not."""
        drain = None if self._monitor is None else self._monitor.drain
        return None if drain is None else by_partition(drain.ends)

    def follow(self, assignment: Assignment) -> Presence | None:
        """Act by another assignment of the run from now on. Returns the presence that says so, which is to be
        written."""
        if self._presence is not None:
            self._presence = replace(self._presence, generation=assignment.generation)
        return self._presence

    @property
    def all_follow(self) -> bool:
        """Whether each of the other containers acts by the last assignment, as far as `check` has seen: none hands a
        task over by an earlier one any more."""
        return self._monitor is None or self._monitor.all_follow

    @property
    def readiness(self) -> Mapping[int, Readiness]:
        """The tasks that each container could take over, as far as `check` has seen."""
        return {} if self._monitor is None else self._monitor.readiness

    @property
    def sending(self) -> Mapping[int, str]:
        """The other containers that send heartbeats and are not done, with the incarnations of their processes, as far
        as `check` has seen. Any thread may ask."""
        return {} if self._monitor is None else self._monitor.sending

    @property
    def absent(self) -> tuple[int, ...]:
        """The containers that have not started in this run, as far as `check` has seen."""
        return () if self._monitor is None else self._monitor.absent

    @property
    def unfinished(self) -> tuple[Presence, ...]:
        """The other containers that have started in this run and are not done, as far as `check` has seen."""
        return () if self._monitor is None else self._monitor.unfinished

    @property
    def incarnation(self) -> str:
        """An id of this process among all that run as this container; empty without a coordinator."""
        return "" if self._presence is None else self._presence.incarnation

    def other_publishers(self) -> Collection[str] | None:
        """The incarnations of other containers that may have transactions to publish; None if that is unknown."""
        if self._coordinator is None or self.membership.containers == 1:
            return ()
        state, _ = self._coordinator.read()
        return state.other_publishers(self.membership.container)

    def announce(self, state: RunPhase) -> None:
        """Write the state of this container to the coordinator stream: "running" once earlier generations are fenced
        and its tasks are open, "done" once its tasks have reached the end of the run."""
        if self._coordinator is not None and self._presence is not None:
            if self._monitor is not None:
                self._monitor.check(wait=True)
            self._presence = replace(self._presence, state=state)
            self._coordinator.write(self._presence)


def transactional_id(pipeline: str, began: int, container: int) -> str:
    """The transactional id of a container that was started in a generation. Whoever has it may commit the tasks that
    the container has.

    >>> transactional_id("visits", 3, 0)
    'visits-3-0'
    """
    return f"{pipeline}-{began}-{container}"


def _as_assigned(assignment: Assignment) -> Mapping[str, int]:
    return assignment.tasks


def begin_run(plan: Plan, system: System, containers: int, until: str, machine: Machine = THIS_MACHINE) -> str:
    """Begin a run for containers that will be started; returns the id of the run."""
    run = machine.new_id()
    requested = RequestedRun(stages_of(plan), containers, until)
    ends = by_stream(ends_of(plan, system, until))
    with Coordinator(system, plan.name, machine).decided(lambda state: begin(state, requested, run, ends)):
        return run


@contextmanager
def join(
    plan: Plan,
    system: System,
    container: ContainerId,
    until: str,
    machine: Machine = THIS_MACHINE,
    owners: OwnersOf = _as_assigned,
    silence: timedelta | None = None,
) -> Iterator[MembershipGuard]:
    """Join the run as a container, and hold that membership while the context is open. `owners` says where the tasks
    of a run are. A container that sends heartbeats is taken for dead after a `silence` of so long.

    A single container needs no coordinator on a system with claims where the pipeline never had several containers.

    Raises SystemProblem if another process runs as this container, and `TakenOver` if the run to join is over.
    """
    if not isinstance(system, ProducingSystem) and container.containers == 1:
        with system.claim(plan.name):
            if system.admin().partitions(coordinator(plan.name)) is None:
                member = _alone(plan, system, container, until, machine.new_id())
                with ExitStack() as stack:
                    late = partial(join_late, plan.name, system, member.run, machine, stack)
                    once = MembershipGuard(member)
                    yield MembershipGuard(member, machine=machine, late=late) if until == "stopped" else once
                return
    with _coordinated(plan, system, container, until, machine, owners, silence) as guard:
        yield guard


def _alone(plan: Plan, system: System, container: ContainerId, until: str, run: str) -> Membership:
    tasks = frozenset(tasks_of(stages_of(plan)))
    ends, catches_up = container.ends or ends_of(plan, system, until), until == "caught-up"
    return Membership(0, 1, 0, run, tasks, ends, f"{plan.name}-0-0", catches_up=catches_up)


@contextmanager
def _coordinated(
    plan: Plan,
    system: System,
    container: ContainerId,
    until: str,
    machine: Machine,
    owners: OwnersOf,
    silence: timedelta | None,
) -> Iterator[MembershipGuard]:
    coordinator_stream = Coordinator(system, plan.name, machine)
    run, requested = machine.new_id(), RequestedRun(stages_of(plan), container.containers, until)
    ends = by_stream(container.ends or ends_of(plan, system, until))

    def decide(state: CoordinatorState) -> Assignment:
        last = state.assignment
        if container.run:
            if last is None or last.run != container.run:
                raise TakenOver(_over(plan, container, system))
            return last
        if not container.containers:
            return joined(state, requested, run, container.number, owners)
        if container.containers > 1 and last is not None and joins(state, requested, container.number, ends):
            # Tasks may be left with a container that is one too many now, and that nobody starts again.
            if any(owner >= last.containers for owner in owners(last).values()):
                return begin(state, requested, run, ends)
            # Without checkpoints the pipeline was reset, and processes its inputs from the start.
            reset = state.is_done(container.number) and not _has_checkpoints(plan, system, last, container.number)
            return begin(state, requested, run, ends) if reset else last
        return begin(state, requested, run, ends)

    with ExitStack() as stack:
        with coordinator_stream.decided(decide) as (assignment, state, read_to):
            if assignment == state.assignment and state.is_done(container.number):
                _warn_of_more(plan, state, container, ends)
                yield MembershipGuard(_membership(plan, assignment, state, container))
                return
            # Within `decided`: no other process decides before this one has its claim.
            stack.enter_context(system.claim(plan.name, str(container.number)))
        presence = starting_presence(assignment, container.number, machine, sends=silence is not None)
        coordinator_stream.write(presence)
        # From where the stream was read, not from its end: nothing that came in between is missed.
        monitor = coordinator_stream.monitor(read_to, assignment, presence, state, silence)
        stack.enter_context(closing(monitor))
        member = _membership(plan, assignment, state, container)
        yield MembershipGuard(member, coordinator_stream, presence, monitor, machine, silence)


def _membership(plan: Plan, assignment: Assignment, state: CoordinatorState, container: ContainerId) -> Membership:
    last, drain = state.assignment, state.drain
    same = last is not None and last.generation == assignment.generation
    before = {} if same and state.generation_running else assignment.before
    return Membership(
        container=container.number,
        containers=assignment.containers,
        generation=assignment.generation,
        stays=not container.containers,
        run=assignment.run,
        tasks=frozenset(task for task, owner in assignment.tasks.items() if owner == container.number),
        ends=by_partition(drain.ends if drain is not None and drain.run == assignment.run else assignment.ends),
        transactional_id=transactional_id(plan.name, assignment.began, container.number),
        fenced=tuple(
            transactional_id(plan.name, began, one) for began, number in before.items() for one in range(number)
        ),
        done=last == assignment and state.is_done(container.number),
        catches_up=assignment.until == "caught-up",
        ends_by_drain=assignment.until == "stopped",
    )


def _has_checkpoints(plan: Plan, system: System, assignment: Assignment, container: int) -> bool:
    """Whether each task of a container has a checkpoint."""
    tasks = {task for task, owner in assignment.tasks.items() if owner == container}
    return tasks <= system.admin().checkpoints(plan.name).keys()


def _warn_of_more(
    plan: Plan, state: CoordinatorState, container: ContainerId, ends: dict[str, list[int]] | None
) -> None:
    """Warn that this container is done with a run that others have not finished, although its inputs have grown."""
    last = state.assignment
    if last is None or state.all_done or last.ends == ends:
        return
    others = [number for number in range(last.containers) if not state.is_done(number)]
    _log.warning(
        "container %d of pipeline %r has done its part of the run to the end, and its inputs have grown since\n"
        "  to do: let container %s finish the run, and then start all %d containers again",
        container.number,
        plan.name,
        ", ".join(map(str, others)),
        last.containers,
    )


def _over(plan: Plan, container: ContainerId, system: System) -> str:
    wrong = (
        f"container {container.number} of pipeline {plan.name!r} on {system.url} has no place: another run has begun"
    )
    remedy = "nothing if the other was started on purpose, else stop one of the two"
    return explain(wrong, "the run that started this container", remedy, "the coordinator stream")

"""Changes the number of containers and the elasticity of a running pipeline: decides which tasks there are and which
container has each, and waits until the containers have done so.

The decision is a record in the coordinator stream, which the containers follow by themselves (`task_moves`)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from ....dsl.errors import PlanError, SystemProblem, TakenOver, UnsupportedError
from ....dsl.text import plural
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.stream_names import checkpoints as checkpoints_of
from ....planner.stream_names import coordinator
from ....planner.task_assignment import numbers_of, stages_of, stages_with
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from ..coordination.assignments import Assignment, CoordinatorState, scaled
from ..coordination.coordinator_stream import Coordinator
from ..coordination.exclusion import ANSWER_SECONDS
from .checkpoint_follower import CheckpointFollower
from .owners import owners_of, unsettled
from .take_over import gone, take_over

# How long a read of checkpoints waits for new ones: whoever interrupts the command waits no longer than that.
POLL_SECONDS = 0.1
ALIVE_SECONDS = 15.0
"""Seconds between two questions whether any container is alive."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at whether another process has changed the pipeline, and whether containers are missing."""
ABSENT_SECONDS = 30.0
"""Seconds after which the containers that have not started are named."""

_Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TaskMove:
    """A task, the container that has it now, or has another task with some of its keys, and the one that is to have
    it."""

    task: str
    container: int
    to: int


def scale_run(
    plan: Plan,
    system: System,
    containers: int | None,
    *,
    elastic: Collection[str] = (),
    timeout: timedelta,
    dry_run: bool = False,
    say: _Say,
    stop: Callable[[], bool] = lambda: False,
    machine: Machine = THIS_MACHINE,
) -> list[TaskMove]:
    """Give a running pipeline so many containers, and its `elastic` stages the elasticity of the plan, and wait until
    each container has its tasks. Returns the tasks that have moved, or that others were split or merged into; with
    `dry_run` those that would be.

    If that takes longer than `timeout`, or is interrupted, the change is taken back. Once `stop()` returns True it is
    not waited for any more: the containers go on with the change by themselves.

    Raises UnsupportedError for a system without changelogs, SystemProblem for a pipeline of which no container runs, or
    not all, and PlanError for a run that has other tasks than the plan.
    """
    if not isinstance(system, ProducingSystem):
        wrong = f"pipeline {plan.name!r} on {system.url} cannot be scaled while it runs: its state has no changelog"
        remedy = "stop it, and start it with the other number of containers"
        raise UnsupportedError(explain(wrong, "a pipeline on Kafka", remedy, plan.pipeline.origin))
    stream = _coordinator(plan, system, machine)
    state, _ = stream.read()
    before = _scalable(plan, system, state)
    if system.admin().partitions(checkpoints_of(plan.name)) is None:  # no container has ever run
        raise _not_started(plan, system, before, state.not_running())
    with closing(CheckpointFollower(system, plan.name)) as follower:
        state, before, owners = _running(plan, system, stream, follower, machine)
        planned, present = stages_of(plan), stages_with(before.tasks)
        stages = {stage: planned[stage] if stage in elastic else tasks for stage, tasks in present.items()}
        wanted = scaled(state, stages, containers or before.containers, owners)
        moves = [TaskMove(task, now, to) for task, (now, to) in unsettled(wanted, owners).items()]
        same = before.containers == wanted.containers and before.tasks.keys() == wanted.tasks.keys()
        if dry_run or (same and not moves):
            return moves
        _decide(plan, stream, before, wanted)
        try:
            _Wait(plan, system, stream, follower, wanted, say, machine).until_settled(timeout.total_seconds(), stop)
        except BaseException:
            _go_back(plan, stream, before, wanted, owners, say)
            raise
    return moves


def _coordinator(plan: Plan, system: ProducingSystem, machine: Machine) -> Coordinator:
    """The coordinator stream of a pipeline of which a container is alive."""
    if system.admin().partitions(coordinator(plan.name)) is not None:
        stream = Coordinator(system, plan.name, machine)
        if stream.ask(machine.process_name(), ANSWER_SECONDS) is not None:
            return stream
    raise _not_running(plan, system, "no container of it runs")


def _not_running(plan: Plan, system: System, why: str) -> SystemProblem:
    wrong = f"pipeline {plan.name!r} on {system.url} cannot be scaled: {why}"
    remedy = "start it with the number of containers that it is to have"
    return SystemProblem(explain(wrong, "a pipeline that runs", remedy, "the coordinator stream"))


def _running(
    plan: Plan, system: System, stream: Coordinator, follower: CheckpointFollower, machine: Machine
) -> tuple[CoordinatorState, Assignment, Mapping[str, int]]:
    """The state of a run that can be scaled, its assignment, and the container that each task has.

    A container that has tasks may be starting again after its death: it is waited for, up to ABSENT_SECONDS. One
    without tasks is not: it may never start, and a change for which nobody starts containers can be taken back."""
    until = machine.clock() + ABSENT_SECONDS
    while True:
        state, _ = stream.read()
        assignment = _scalable(plan, system, state)
        owners = owners_of(assignment, follower.checkpoints)
        absent = sorted({*state.not_running()} & {*owners.values()})
        if not absent:
            return state, assignment, owners
        if machine.clock() > until:
            raise _not_started(plan, system, assignment, absent)
        follower.read(POLL_SECONDS)


def _scalable(plan: Plan, system: System, state: CoordinatorState) -> Assignment:
    """The assignment of a run, unless it is one that cannot be scaled."""
    assignment = state.assignment
    if assignment is None:
        raise _not_running(plan, system, "no run of it has begun")
    if assignment.until != "stopped":
        wrong = f"the run of pipeline {plan.name!r} ends by itself, at {assignment.until!r}, and cannot be scaled"
        remedy = "wait for its end, and start it with the other number of containers"
        raise SystemProblem(explain(wrong, "a run until it is stopped", remedy, "the coordinator stream"))
    _refuse_drained(plan, state)
    if numbers_of(stages_with(assignment.tasks)) != numbers_of(stages_of(plan)):
        wrong = f"the run of pipeline {plan.name!r} has other tasks than the pipeline has now"
        expected = "the pipeline and its partitions as the run has them"
        remedy = "load the version that runs, with the group_by of its run"
        raise PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))
    return assignment


def _refuse_drained(plan: Plan, state: CoordinatorState) -> None:
    """Raise SystemProblem for a run that was told to drain: its containers end, each as it has done its part."""
    if state.drains:
        wrong = f"the run of pipeline {plan.name!r} was told to drain, and cannot be scaled"
        remedy = "wait for its end, and start it with the other number of containers"
        raise SystemProblem(explain(wrong, "a run until it is stopped", remedy, "the coordinator stream"))


def _not_started(plan: Plan, system: System, assignment: Assignment, absent: Sequence[int]) -> SystemProblem:
    return _not_running(plan, system, f"{_have_not_started(assignment, absent)} yet")


def _have_not_started(assignment: Assignment, absent: Sequence[int]) -> str:
    """That these containers have not started, as text."""
    word, verb = ("container", "has") if len(absent) == 1 else ("containers", "have")
    return f"{word} {', '.join(map(str, absent))} of {assignment.containers} {verb} not started"


def _decide(plan: Plan, stream: Coordinator, before: Assignment, wanted: Assignment) -> None:
    """Write the assignment. Raises SystemProblem if another process has written one meanwhile."""

    def decide(state: CoordinatorState) -> Assignment:
        _refuse_drained(plan, state)
        if state.assignment != before:
            raise _changed(plan, before, state)
        return wanted

    with stream.decided(decide):
        pass


def _changed(plan: Plan, before: Assignment, now: CoordinatorState) -> SystemProblem:
    """The error where another process has decided something else since an assignment."""
    wrong = f"another process has scaled pipeline {plan.name!r}, or started it again, meanwhile"
    expected, remedy = "one change at a time", "look at it, and try again"
    if dead := _without_tasks(before, now):
        word, were, their = ("container", "was", "its") if len(dead) == 1 else ("containers", "were", "their")
        wrong = f"{word} {', '.join(map(str, dead))} of pipeline {plan.name!r} {were} taken for dead meanwhile, and "
        wrong += f"others have {their} tasks"
        expected, remedy = "containers that are alive while tasks move", "call it again"
    return SystemProblem(explain(wrong, expected, remedy, "the coordinator stream"))


def _without_tasks(before: Assignment, now: CoordinatorState) -> list[int]:
    """The containers that have started and have no tasks any more, although the run has as many containers as before,
    or more: they were taken for dead."""
    last = now.assignment
    if last is None or not last.continues(before) or last.containers < before.containers:
        return []
    started = {number for number, one in now.presences.items() if one.run == last.run and number < last.containers}
    return sorted(({*before.tasks.values()} - {*last.tasks.values()}) & started)


def _stopped(plan: Plan) -> SystemProblem:
    wrong = f"no container of pipeline {plan.name!r} runs any more, and tasks were to move"
    remedy = "start it with the number of containers that it is to have: it goes on from its last checkpoints"
    return SystemProblem(explain(wrong, "a pipeline that runs", remedy, "the coordinator stream"))


class _Wait:
    """Waits until each task is with its container."""

    def __init__(
        self,
        plan: Plan,
        system: ProducingSystem,
        stream: Coordinator,
        follower: CheckpointFollower,
        wanted: Assignment,
        say: _Say,
        machine: Machine,
    ) -> None:
        self._plan, self._stream, self._follower, self._wanted = plan, stream, follower, wanted
        self._system = system
        self._say, self._machine, self._clock = say, machine, machine.clock
        self._began = self._looked = self._asked = machine.clock()
        self._left = -1
        self._absent_said = False

    def until_settled(self, seconds: float, stop: Callable[[], bool]) -> None:
        """Return once each task is with its container, or `stop()` is true. Raises SystemProblem after so many
        seconds."""
        while not stop() and (left := unsettled(self._wanted, owners_of(self._wanted, self._follower.checkpoints))):
            if len(left) != self._left:
                self._left = len(left)
                self._say(f"{plural(len(left), 'task')} of {len(self._wanted.tasks)} to move")
            now = self._clock()
            if now - self._began > seconds:
                raise self._too_late(seconds, left)
            if now - self._looked > LOOK_SECONDS:
                self._looked = now
                self._look(now)
            self._follower.read(POLL_SECONDS)

    def _look(self, now: float) -> None:
        state, _ = self._stream.read()
        if state.assignment != self._wanted:
            raise _changed(self._plan, self._wanted, state)
        if now - self._asked > ALIVE_SECONDS:
            self._ask(state)
            self._asked = self._clock()
        absent = state.not_running()
        if absent and now - self._began > ABSENT_SECONDS and not self._absent_said:
            self._absent_said = True
            word = "it" if len(absent) == 1 else "them"
            self._say(f"{_have_not_started(self._wanted, absent)}: start {word} if nothing else does")

    def _ask(self, state: CoordinatorState) -> None:
        """Ask which containers are alive. The tasks of a container that is one too many and not alive are handed over
        for it; any other that is not alive will be started again."""
        answers = self._stream.answers(self._machine.process_name(), ANSWER_SECONDS)
        alive = {one.container for one in answers if one.run == self._wanted.run}
        if not alive:
            raise _stopped(self._plan)
        has = set(owners_of(self._wanted, self._follower.checkpoints).values())
        for container in sorted(has - alive):
            if container >= self._wanted.containers:
                with suppress(TakenOver):  # it has just started again
                    tasks = take_over(self._plan, self._system, self._wanted, container, self._machine)
                    self._stream.write(gone(container, self._wanted, state))
                    self._say(f"container {container} is gone: others go on with its {plural(len(tasks), 'task')}")

    def _too_late(self, seconds: float, left: Mapping[str, tuple[int, int]]) -> SystemProblem:
        tasks = ", ".join(f"{task} from container {now} to {to}" for task, (now, to) in sorted(left.items())[:3])
        more = f", and {len(left) - 3} more" if len(left) > 3 else ""
        wrong = f"after {seconds:g} s {plural(len(left), 'task')} of pipeline {self._plan.name!r} have not moved: "
        remedy = "see what their containers say; a longer --timeout leaves time to restore state, and for calls to end"
        expected = "tasks that move to their containers in time; the pipeline goes back to the containers of before"
        return SystemProblem(explain(f"{wrong}{tasks}{more}", expected, remedy, "the coordinator stream"))


def _go_back(
    plan: Plan, stream: Coordinator, before: Assignment, wanted: Assignment, owners: Mapping[str, int], say: _Say
) -> None:
    """Give the tasks back to the containers that had them, unless another process has decided something else."""

    def decide(state: CoordinatorState) -> Assignment:
        last = state.assignment
        if last is None or not last.continues(before) or last.generation != before.generation + 1:
            raise _changed(plan, wanted, state)
        back = scaled(state, stages_with(before.tasks), before.containers, owners)
        return replace(back, tasks=dict(before.tasks))

    with stream.decided(decide):
        say(f"pipeline {plan.name!r} goes back to {plural(before.containers, 'container')}")

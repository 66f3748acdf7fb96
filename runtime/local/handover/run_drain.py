"""Drains a run that would go on until it is stopped: it ends like a run to the end, at offsets that are recorded.

The request is a record in the coordinator stream, which the containers of the run follow by themselves."""

from collections.abc import Callable
from datetime import timedelta

from ....dsl.errors import PlanError, SystemProblem
from ....dsl.text import plural
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.stream_names import coordinator
from ....planner.task_assignment import numbers_of, stages_of, stages_with
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from ..checkpoints.checkpoint import checkpoints_in
from ..coordination.assignments import CoordinatorState, DrainRequest
from ..coordination.coordinator_stream import Coordinator
from ..coordination.exclusion import ANSWER_SECONDS
from ..coordination.run_ends import ends_now
from .owners import owners_of, unsettled

# Each look reads the coordinator stream to its end; nobody who waits for a run to end notices less.
LOOK_SECONDS = 0.2
"""The time between two looks at who has done its part."""
# Each question is a record that all containers answer, and their answers are waited for, which takes seconds.
ALIVE_SECONDS = 15.0
"""Seconds between two questions whether any container is alive."""

SourceEnds = dict[str, list[int]]
"""The offsets at which sources are to end: for each stream one for each of its partitions."""


def drain_run(
    plan: Plan,
    system: System,
    *,
    timeout: timedelta,
    dry_run: bool = False,
    say: Callable[[str], None],
    machine: Machine = THIS_MACHINE,
) -> SourceEnds:
    """End the run of a pipeline at the present end offsets of its sources, and wait until it has ended. Returns these
    offsets; with `dry_run` those that would be recorded. A run that drains already keeps the offsets that it has.

    Raises SystemProblem for a pipeline that does not run, whose run ends by itself, or whose tasks move; for a run that
    ends in another way; and after `timeout`, after which the run goes on draining. Raises PlanError for a run that has
    other tasks than the plan.
    """
    stream, run = _running(plan, system, machine)
    state, _ = stream.read()
    _check(plan, system, state)
    drain = state.drain if state.drain is not None and state.drain.run == run else None
    # Not the present ends where it drains already: containers may have ended at those that they were told.
    ends = ends_now(plan, system) if drain is None else drain.ends
    if dry_run:
        return ends
    if drain is None:
        stream.write(DrainRequest(run=run, ends=ends))
    _await(plan, system, stream, run, timeout.total_seconds(), say, machine)
    return ends


def _running(plan: Plan, system: System, machine: Machine) -> tuple[Coordinator, str]:
    """The coordinator stream of a pipeline of which a container is alive, and the id of its run."""
    if system.admin().partitions(coordinator(plan.name)) is None and not _may_be_alone(plan, system):
        raise _not_running(plan, system, "no container of it runs")
    stream = Coordinator(system, plan.name, machine)
    presence = stream.ask(machine.process_name(), ANSWER_SECONDS)
    if presence is None:
        raise _not_running(plan, system, "no container of it runs")
    return stream, presence.run


def _may_be_alone(plan: Plan, system: System) -> bool:
    """Whether a container may run that has no coordinator stream yet: it looks for the stream now and then."""
    if isinstance(system, ProducingSystem):
        return False
    try:
        with system.claim(plan.name):
            return False
    except SystemProblem:
        return True


def _not_running(plan: Plan, system: System, why: str) -> SystemProblem:
    wrong = f"pipeline {plan.name!r} on {system.url} cannot be drained: {why}"
    remedy = 'run it with until="end", which does the same; so does a pipeline on Spark, once it is stopped'
    return SystemProblem(explain(wrong, "a pipeline that runs on the local engine", remedy, "the coordinator stream"))


def _check(plan: Plan, system: System, state: CoordinatorState) -> None:
    """Raise an error for a run that cannot be drained."""
    assignment = state.assignment
    if assignment is None:  # one container on a log, which has all tasks
        return
    if assignment.until != "stopped":
        raise _not_running(plan, system, f"its run ends by itself, at {assignment.until!r}")
    if numbers_of(stages_with(assignment.tasks)) != numbers_of(stages_of(plan)):
        wrong = f"the run of pipeline {plan.name!r} has other tasks than the pipeline has now"
        expected = "the pipeline and its partitions as the run has them"
        raise PlanError(explain(wrong, expected, "load the version that runs", plan.pipeline.origin))
    if isinstance(system, ProducingSystem):
        owners = owners_of(assignment, checkpoints_in(system, plan.name))
        if unsettled(assignment, owners):
            raise _not_running(plan, system, "tasks of it move at the moment: try again")


def _await(
    plan: Plan,
    system: System,
    stream: Coordinator,
    run: str,
    seconds: float,
    say: Callable[[str], None],
    machine: Machine,
) -> None:
    began = asked = machine.clock()
    said: list[int] = []
    while left := _left(plan, system, stream, run):
        if left != said:
            said = left
            say(f"{plural(len(left), 'container')} to end: {', '.join(map(str, left))}")
        now = machine.clock()
        if now - began > seconds:
            wrong = f"pipeline {plan.name!r} has not ended within {seconds:g} s of being told to drain: "
            wrong += f"container {', '.join(map(str, left))} has not"
            remedy = "call it again to wait on: the run goes on, and ends at the offsets that it was told"
            raise SystemProblem(
                explain(wrong, "a run whose inputs are read within --timeout", remedy, coordinator(plan.name))
            )
        if now - asked > ALIVE_SECONDS:
            # Looked at once more: the last container may have done its part, and ended, while it was asked.
            if stream.ask(machine.process_name(), ANSWER_SECONDS) is None and _left(plan, system, stream, run):
                raise _ended_otherwise(plan, system, "no container of it runs any more")
            asked = machine.clock()
        machine.sleep(LOOK_SECONDS)


def _left(plan: Plan, system: System, stream: Coordinator, run: str) -> list[int]:
    """The containers of a run that have not done their part."""
    state, _ = stream.read()
    if state.assignment is not None and state.assignment.run != run:
        raise _ended_otherwise(plan, system, "another run of it has begun")
    containers = 1 if state.assignment is None else state.assignment.containers
    done = {number for number, one in state.presences.items() if one.run == run and one.state == "done"}
    return [number for number in range(containers) if number not in done]


def _ended_otherwise(plan: Plan, system: System, why: str) -> SystemProblem:
    wrong = f"pipeline {plan.name!r} on {system.url} was told to drain, and has not been seen to: {why}"
    remedy = "look at what it has said; the next run goes on from its last commit"
    return SystemProblem(explain(wrong, "a run that goes on until it is drained", remedy, coordinator(plan.name)))

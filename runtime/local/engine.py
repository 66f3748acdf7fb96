"""Runs a plan on the local engine: creates its streams, opens its tasks, and runs them in a container."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast

from ...dsl.errors import UnsupportedError
from ...dsl.operators.calls import breakers_of, limits_of
from ...dsl.validation import explain
from ...planner.journals import journals_of
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..data_warnings.suspicious_times import SuspiciousTimes
from ..kernel.calls.cancellation import CallLoop, refuse_running_loop
from ..kernel.code.program import admission_of, circuit_of
from ..kernel.failures import ended_by_exit
from ..open_resources import OpenResources
from ..output_routes import open_sinks
from ..preflight.input_streams import InputStreamMonitor, inputs_of
from ..preflight.state_compatibility import refuse_changed, reset_command
from ..process.event_loops import loop_maker
from ..process.gc_tuning import reduced_gc
from ..process.interruptions import interruption, interruptions_raised
from ..process.machine import THIS_MACHINE, Machine
from ..process.resource_limits import exhaustion_explained
from ..process.signals import later_by, stop_signals
from ..process.stop_request import Stopped
from ..report import OnProgress, Report
from ..systems.contract import Admin, ProducingSystem, PublishingSystem, RecordProducer, StreamPartition, System
from ..systems.end_offsets import EndOffsets
from ..systems.provisioning import changelogs_of, make_changelogs, make_streams, outputs_of, refuse_other_counts
from .checkpoints.border_compatibility import refuse_changed_borders
from .checkpoints.checkpoint import checkpoints_in
from .checkpoints.migration import kept_states, refuse_other_grouping, refuse_recreated
from .checkpoints.rescaled import changed_stages, plan_before
from .commit.changelog_commit import ChangelogCommit, await_checkpoints, longest_transaction
from .commit.contract import Commits
from .commit.restore import OnRestore, ignore_restore
from .commit.two_phase_commit import TwoPhaseCommit
from .container import Container
from .coordination.assignments import Assignment
from .coordination.limit_leases import share_limits
from .coordination.membership import ContainerId, Membership, MembershipGuard, join
from .followed_inputs import note_followed
from .handover.fail_over_watch import FailOverWatch, begin_watch
from .handover.owners import owned_by, owners_of, unsettled
from .handover.run_plan import half_changed, plan_of_run, refuse_half_changed
from .handover.task_moves import task_moves
from .input_growth import InputGrowth
from .journals.writers import ProducedJournal
from .observe.progress import ProgressReporter
from .open_tasks import open_tasks
from .rescaling import refuse_other_elasticity, rescale
from .run_context import RunContext
from .stores.alignment import CommittedLog
from .stores.survey import missing_stores

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ContainerSetup:
    """What a container is opened with: what it runs and where, what tells it to `stop`, and the `stack` that closes
    all that it has opened, and ends the `loop`."""

    plan: Plan
    system: System
    settings: Settings
    until: str
    machine: Machine
    stop: Callable[[], bool]
    loop: CallLoop
    stack: ExitStack


def run(
    plan: Plan,
    system: System,
    settings: Settings,
    until: str,
    progress: OnProgress | None,
    spark: Any = None,
    container_id: ContainerId | None = None,
    machine: Machine = THIS_MACHINE,
) -> Report:
    """Run the tasks of one container in this process; without `container_id` all tasks of the plan.

    In the main thread SIGINT and SIGTERM stop the run. `spark` has no meaning for this engine. `machine` is where the
    run takes its clocks, pauses and ids from.
    """
    del spark
    refuse_running_loop("run()")
    id = container_id or ContainerId()
    plan, took = _own_elasticity(plan, system, settings, id, until, machine)
    began, loop = machine.clock(), CallLoop(loop_maker(settings.event_loop))
    container: Container | None = None
    failed: Exception | None = None
    report: Report | None = None
    with exhaustion_explained(), stop_signals(later_by(settings.stop_timeout)) as stop:
        try:
            with interruptions_raised(), ExitStack() as stack:
                try:
                    setup = ContainerSetup(plan, system, settings, until, machine, stop, loop, stack)
                    container = _prepare(setup, id, progress, took)
                    if container is not None:
                        stop.begin()
                        report = loop.run(container.run())
                except Exception as error:
                    failed = None if interruption(error) else error
                    raise
        except Stopped:
            if failed is not None:  # what was stopped is but the closing behind it
                raise failed from None
            if report is None:
                _log.warning("pipeline %r is stopped without a last commit; it goes on from the one before", plan.name)
        except SystemExit as ended:
            raise ended_by_exit(plan.name, ended) from ended
    if container is not None:
        return report or container.report()
    seconds = machine.clock() - began
    return Report(pipeline=plan.name, engine="local", seconds=seconds, resumed=True, drained=until == "stopped")


def _own_elasticity(
    plan: Plan, system: System, settings: Settings, id: ContainerId, until: str, machine: Machine
) -> tuple[Plan, float | None]:
    """The plan with the elasticity of the run that this process joins; or let the tasks have that of the plan, where
    this process may change it: see `change_elasticity`."""
    joined = plan_of_run(plan, system, id, until, machine)
    if joined is not None:
        if joined is not plan and not id.run:
            _log.warning("pipeline %r goes on with the elasticity that it was scaled to", plan.name)
        return joined, None
    if id.containers != 1:
        stored = checkpoints_in(system, plan.name)
        if not half_changed(plan, stored):
            refuse_other_elasticity(plan, stored)
        return plan, None
    return plan, change_elasticity(plan, system, settings, until, machine) if id.ends is None else None


def change_elasticity(
    plan: Plan, system: System, settings: Settings, until: str, machine: Machine = THIS_MACHINE
) -> float | None:
    """Let the tasks of a pipeline have the elasticity of the plan. Nothing happens if they have it; else no container
    of the pipeline may run. Returns the seconds in which checkpoints and state were split or merged, without those in
    which tasks came equally far. Raises the errors of `rescale`, and of a run.

    A change that was begun while the pipeline ran goes on while it runs again: a run to an end is refused then."""
    stored = checkpoints_in(system, plan.name)
    if current := half_changed(plan, stored):
        refuse_half_changed(plan, current, until)
        return None
    before = plan_before(plan, stored)
    if before is plan:
        return None
    # First, so that a plan that is refused leaves the tasks as they are.
    refuse_impossible(before, system, settings)
    began, caught_up = machine.clock(), 0.0

    def catch_up(before: Plan, ends: Mapping[StreamPartition, int], until: str) -> None:
        nonlocal caught_up
        since = machine.clock()
        run(before, system, settings, until, None, container_id=ContainerId(ends={**ends}), machine=machine)
        caught_up = machine.clock() - since

    rescale(before, plan, system, settings, catch_up, machine)
    seconds = machine.clock() - began - caught_up
    changes = [
        f"stage {new.name!r} from {old.elasticity} to {new.elasticity}" for old, new in changed_stages(before, plan)
    ]
    text = "pipeline %r: key buckets of each task are changed: %s; checkpoints and state took %.1f s"
    _log.warning(text, plan.name, ", ".join(changes), seconds)
    return seconds


def _prepare(
    setup: ContainerSetup, container_id: ContainerId, progress: OnProgress | None, change_seconds: float | None
) -> Container | None:
    """Open a container with all that it needs. `change_seconds` is how long a change of the elasticity took, None
    without one. Returns None if its part of the run is done."""
    plan, system, settings, until = setup.plan, setup.system, setup.settings, setup.until
    machine, stack = setup.machine, setup.stack
    # First, so that a plan that is refused has created no stream.
    refuse_impossible(plan, system, settings)
    make_streams(plan, system.admin())
    ends, grows = until != "stopped", isinstance(system, ProducingSystem)
    inputs = InputStreamMonitor(plan, system, settings, inputs_of(plan), ends=ends, grows=grows, clock=machine.clock)
    outputs = _output_producer(plan, system, settings, stack)
    owners = partial(_owners, plan, system)
    sends = settings.standbys and until == "stopped" and isinstance(system, ProducingSystem)
    silence = settings.heartbeat_timeout if sends else None
    guard = stack.enter_context(join(plan, system, container_id, until, machine, owners, silence))
    stack.enter_context(guard.fences_explained())
    stack.enter_context(inputs.offsets_explained())
    if guard.membership.done:
        return None
    # At once: to restore state may take longer than others wait for a heartbeat.
    if (watch := begin_watch(plan, system, settings, guard, machine)) is not None:
        stack.callback(watch.close)
    reporter = _reporter(setup, progress, guard, inputs, change_seconds)
    container = _open_container(setup, guard, inputs, outputs, reporter, watch)
    # Not before: it says that earlier generations are fenced and that the tasks are open.
    guard.announce("running")
    # Last: it freezes all objects that are there, and these last as long as the run.
    stack.enter_context(reduced_gc())
    return container


def _reporter(
    setup: ContainerSetup,
    progress: OnProgress | None,
    guard: MembershipGuard,
    inputs: InputStreamMonitor,
    change_seconds: float | None,
) -> ProgressReporter:
    system, machine = setup.system, setup.machine
    return ProgressReporter(
        setup.plan,
        EndOffsets(system.admin(), threaded=isinstance(system, ProducingSystem)),
        progress,
        container=str(guard.membership.container),
        clock=machine.clock,
        times=SuspiciousTimes(setup.plan, machine.clock, machine.wall),
        warnings=inputs.warnings,
        elasticity_change_seconds=change_seconds,
    )


def _open_container(
    setup: ContainerSetup,
    guard: MembershipGuard,
    inputs: InputStreamMonitor,
    outputs: RecordProducer | None,
    reporter: ProgressReporter,
    watch: FailOverWatch | None,
) -> Container:
    """Open the commits, the tasks and the consumer of a container that has joined the run."""
    plan, system, settings, stack, loop = setup.plan, setup.system, setup.settings, setup.stack, setup.loop
    member, admin, machine = guard.membership, system.admin(), setup.machine
    commits = open_commits(plan, system, admin, settings, guard, stack, reporter.restoring, outputs)
    shared = _run_context(plan, settings, commits, member, inputs)
    loop.begin()
    stack.callback(loop.end)
    resources = OpenResources(loop.run, settings.stall_timeout, stopping=setup.stop)
    follows = member.ends is None and isinstance(system, ProducingSystem)
    guard.catch_up()
    admissions = [admission_of(resources.clients, limit) for limit in limits_of(plan.pipeline.calls)]
    reporter.follow_limits(admissions)
    reporter.pools = loop.pool_uses
    reporter.circuits = [circuit_of(resources.clients, breaker) for breaker in breakers_of(plan.pipeline.calls)]
    if (leases := share_limits(plan, system, member, admissions, machine)) is not None:
        stack.callback(leases.close)
    # Once the commits are open: no earlier process of this container can hand a task over any more. It may have done so
    # by an assignment that was written since this one has joined; and others may have split it until they were fenced.
    own, settled = _own_tasks(plan, system, guard, follows=follows)
    tasks, opener = open_tasks(shared, system, admin, stack, own, resources, may_get_more=follows, wall=machine.wall)
    note_followed(tasks, system, member)
    consumer = stack.enter_context(closing(system.consumer()))
    open_sinks(plan, stack, loop.run, settings.stall_timeout)
    return Container(
        plan,
        tasks,
        consumer,
        commits,
        settings,
        member.ends,
        setup.stop,
        reporter,
        guard=guard,
        machine=machine,
        inputs=inputs,
        moves=task_moves(guard, opener, system, settled=settled, machine=machine, watch=watch) if follows else None,
        growth=InputGrowth(opener, inputs, system) if isinstance(system, ProducingSystem) else None,
    )


def _own_tasks(plan: Plan, system: System, guard: MembershipGuard, *, follows: bool) -> tuple[frozenset[str], bool]:
    """The tasks that a container has now, and whether all tasks of the run are where its assignment wants them. Raises
    PlanError for a run to an end where they are not the tasks of the assignment."""
    member, assignment = guard.membership, guard.assignment
    if assignment is None or not isinstance(system, ProducingSystem):
        return member.tasks, True
    owners = _owners(plan, system, assignment)
    settled = not unsettled(assignment, owners)
    if not follows:
        refuse_half_changed(plan, () if settled else [*owners], assignment.until)
    return owned_by(member.container, owners), settled


def _owners(plan: Plan, system: System, assignment: Assignment) -> Mapping[str, int]:
    return owners_of(assignment, checkpoints_in(system, plan.name))


def _run_context(
    plan: Plan, settings: Settings, commits: Commits, member: Membership, inputs: InputStreamMonitor
) -> RunContext:
    return RunContext(
        member.run,
        plan,
        settings,
        commits,
        asyncio.sleep,
        container=member.container,
        generation=member.generation,
        identities=inputs.identities,
        catches_up=member.catches_up,
        ends_by_drain=member.ends_by_drain,
    )


def refuse_impossible(plan: Plan, system: System, settings: Settings) -> None:
    """Raise the error of a plan that cannot resume from its checkpoints, its stores or its streams."""
    checkpoints, reset = checkpoints_in(system, plan.name), reset_command(plan, system, settings)
    refuse_changed(plan, kept_states(plan, checkpoints), reset)
    refuse_changed_borders(plan, system, checkpoints)
    refuse_recreated(plan, system, checkpoints, reset)
    refuse_other_grouping(plan, checkpoints, reset)
    for problem in missing_stores(plan, system, settings):
        raise problem
    refuse_other_counts(plan, settings)
    loop_maker(settings.event_loop)
    if settings.standbys and not isinstance(system, ProducingSystem):
        wrong = f"Settings: standbys={settings.standbys}, and {system.url} has no changelogs to copy state from"
        remedy = "leave it out: the containers of a machine share its disk"
        raise UnsupportedError(explain(wrong, "a pipeline on Kafka", remedy, plan.pipeline.origin))


def _output_producer(plan: Plan, system: System, settings: Settings, stack: ExitStack) -> RecordProducer | None:
    """The producer of outputs that are in no transaction. It connects while the container joins the run."""
    if not isinstance(system, ProducingSystem) or settings.guarantee == "exactly_once":
        return None
    producer = system.record_producer(streams=outputs_of(plan))
    stack.callback(producer.close)
    return producer


def open_commits(
    plan: Plan,
    system: System,
    admin: Admin,
    settings: Settings,
    guard: MembershipGuard,
    stack: ExitStack,
    on_restore: OnRestore = ignore_restore,
    outputs: RecordProducer | None = None,
) -> Commits:
    """Open the commits to a system; `stack` closes their producers. `outputs` produces outputs before they are
    committed."""
    member = guard.membership
    if isinstance(system, ProducingSystem):
        make_changelogs(plan, admin)
        # Before checkpoints are read: a container that was replaced can commit until it is fenced.
        for id in member.fenced:
            system.record_producer(id).close()
        longest = longest_transaction(plan, settings) if outputs is None else timedelta(0)
        written = [*changelogs_of(plan), *(outputs_of(plan) if outputs is None else ())]
        producer = system.record_producer(member.transactional_id, longest=longest, streams=written)
        stack.callback(producer.close)
        # Before the event loop runs: in an outage of the brokers the first `send` would hold up asynchronous calls.
        producer.learn(written)
        await_checkpoints(system, plan.name, producer)
        if outputs is not None:
            outputs.learn(outputs_of(plan))
        return ChangelogCommit(
            plan.name,
            system,
            producer,
            outputs=outputs,
            on_restore=on_restore,
            group_offsets=settings.group_offsets,
            journal=_produced_journal(plan, system, stack),
        )
    publishing = cast("PublishingSystem", system)
    publisher = stack.enter_context(closing(publishing.producer(guard.incarnation)))
    streams = [stream for stream in plan.streams if stream.kind == "intermediate"]
    between = [(stream.name, partition) for stream in streams for partition in range(stream.partitions)]
    between += [(one.stream, number) for one in journals_of(plan) for number in range(one.stage.tasks)]
    log = CommittedLog(plan, publishing, publisher, reset_command(plan, publishing, settings))
    commits = TwoPhaseCommit(log, between, guard.other_publishers)
    if commits.journal is not None:
        stack.callback(commits.journal.close)
    return commits


def _produced_journal(plan: Plan, system: ProducingSystem, stack: ExitStack) -> ProducedJournal | None:
    """The writer of journals, by a producer that connects while the container starts; `stack` closes it."""
    streams = [one.stream for one in journals_of(plan)]
    if not streams:
        return None
    producer = system.record_producer(streams=streams)
    journal = ProducedJournal(producer)
    stack.callback(journal.close)
    producer.learn(streams)
    return journal

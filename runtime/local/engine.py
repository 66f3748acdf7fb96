"""Runs a plan on the local engine: creates its streams, opens its tasks, and runs them in a container."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from itertools import chain
from typing import Any, cast

from ...dsl.errors import PlanError
from ...dsl.validation import explain
from ...planner.border_schema import next_border_schemas
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.task_assignment import task_name
from ..data_warnings.suspicious_times import SuspiciousTimes
from ..kernel.calls.cancellation import CallLoop, refuse_running_loop
from ..kernel.code.program import Clients, Program, RemoteTableClients
from ..kernel.compiler.compiler import compile_stage
from ..kernel.failures import ended_by_exit
from ..kernel.time.stage_input import TimeSource
from ..open_resources import OpenResources
from ..output_routes import open_sinks
from ..preflight.input_streams import InputStreamMonitor, inputs_of
from ..preflight.state_compatibility import refuse_changed, reset_command
from ..process.gc_tuning import reduced_gc
from ..process.interruptions import interruption, interruptions_raised
from ..process.machine import THIS_MACHINE, Machine
from ..process.resource_limits import exhaustion_explained
from ..process.signals import stop_signals
from ..process.stop_request import Stopped
from ..report import OnProgress, Report
from ..size_limit import SizeLimit
from ..state import MemoryStore, TaskStore
from ..systems.contract import Admin, ProducingSystem, PublishingSystem, RecordProducer, System
from ..systems.end_offsets import EndOffsets
from ..systems.provisioning import (
    bootstrap_streams,
    changelogs_of,
    make_changelogs,
    make_streams,
    outputs_of,
    record_limits,
    refuse_other_counts,
    table_streams,
)
from .checkpoints.border_compatibility import last_border_schemas, refuse_changed_borders
from .checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from .checkpoints.migration import kept_states, migrate_checkpoints, read_before, refuse_recreated
from .commit.changelog_commit import ChangelogCommit, OnRestore, ignore_restore
from .commit.contract import Commits
from .commit.two_phase_commit import TwoPhaseCommit
from .container import Container
from .coordination.membership import ContainerId, Membership, PlaceGuard, join
from .input_queue import InputQueue, InputQueues
from .observe.progress import ProgressReporter
from .stores.alignment import CommittedLog
from .stores.survey import missing_stores
from .stores.task_stores import store_for
from .task import LocalTask, RunContext
from .task_setup import TaskSetup

_log = logging.getLogger(__name__)

OffsetsOf = Callable[[str], list[int]]
"""Returns the offsets of a stream, by partition."""


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
    began, loop = machine.clock(), CallLoop()
    container: Container | None = None
    failed: Exception | None = None
    report: Report | None = None
    with exhaustion_explained(), stop_signals() as stop:
        try:
            with interruptions_raised(), ExitStack() as stack:
                id = container_id or ContainerId()
                try:
                    container = _prepare(plan, system, settings, until, progress, id, stop, stack, machine, loop)
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
    return Report(pipeline=plan.name, engine="local", seconds=machine.clock() - began, resumed=True)


def _prepare(
    plan: Plan,
    system: System,
    settings: Settings,
    until: str,
    progress: OnProgress | None,
    container_id: ContainerId,
    stop: Callable[[], bool],
    stack: ExitStack,
    machine: Machine,
    loop: CallLoop,
) -> Container | None:
    """Open a container with all that it needs; `stack` closes it, and ends the loop. Returns None if its part of the
    run is done."""
    # First, so that a plan that is refused has created no stream.
    refuse_impossible(plan, system, settings)
    make_streams(plan, system.admin())
    inputs = InputStreamMonitor(plan, system, settings, inputs_of(plan), ends=until != "stopped", clock=machine.clock)
    outputs = _output_producer(plan, system, settings, stack)
    guard = stack.enter_context(join(plan, system, container_id, until, machine))
    stack.enter_context(guard.fences_explained())
    if guard.membership.done:
        return None
    reporter = ProgressReporter(
        plan,
        EndOffsets(system.admin(), threaded=isinstance(system, ProducingSystem)),
        progress,
        container=str(guard.membership.container),
        clock=machine.clock,
        times=SuspiciousTimes(plan, machine.clock, machine.wall),
        warnings=inputs.warnings,
    )
    container = _open_container(plan, system, settings, guard, inputs, outputs, reporter, stop, stack, machine, loop)
    # Not before: it says that earlier generations are fenced and that the tasks are open.
    guard.announce("running")
    # Last: it freezes all objects that are there, and these last as long as the run.
    stack.enter_context(reduced_gc())
    return container


def _open_container(
    plan: Plan,
    system: System,
    settings: Settings,
    guard: PlaceGuard,
    inputs: InputStreamMonitor,
    outputs: RecordProducer | None,
    reporter: ProgressReporter,
    stop: Callable[[], bool],
    stack: ExitStack,
    machine: Machine,
    loop: CallLoop,
) -> Container:
    """Open the commits, the tasks and the consumer of a container that has joined the run; `stack` closes them."""
    member, admin = guard.membership, system.admin()
    commits = open_commits(plan, system, admin, settings, guard, stack, reporter.restoring, outputs)
    shared = _run_context(plan, settings, commits, member, inputs)
    loop.begin()
    stack.callback(loop.end)
    resources = OpenResources(loop.run, settings.stall_timeout, stopping=stop)
    tasks = make_tasks(shared, system, admin, stack, member.tasks, resources)
    consumer = system.consumer()
    stack.callback(consumer.close)
    open_sinks(plan, stack, loop.run, settings.stall_timeout)
    return Container(
        plan,
        tasks,
        consumer,
        commits,
        settings,
        member.ends,
        stop,
        reporter,
        guard=guard,
        machine=machine,
        inputs=inputs,
    )


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
    )


def refuse_impossible(plan: Plan, system: System, settings: Settings) -> None:
    """Raise the error of a plan that cannot resume from its checkpoints, its stores or its streams."""
    checkpoints, reset = checkpoints_in(system, plan.name), reset_command(plan, system, settings)
    refuse_changed(plan, kept_states(plan, checkpoints), reset)
    refuse_changed_borders(plan, system, checkpoints)
    refuse_recreated(plan, system, checkpoints, reset)
    for problem in missing_stores(plan, system, settings):
        raise problem
    refuse_other_counts(plan, settings)


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
    guard: PlaceGuard,
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
        longest = _longest(plan, settings) if outputs is None else timedelta(0)
        written = [*changelogs_of(plan), *(outputs_of(plan) if outputs is None else ())]
        producer = system.record_producer(member.transactional_id, longest=longest, streams=written)
        stack.callback(producer.close)
        # Before the event loop runs: in an outage of the brokers the first `send` would hold up asynchronous calls.
        producer.learn(written)
        if outputs is not None:
            outputs.learn(outputs_of(plan))
        return ChangelogCommit(
            plan.name, system, producer, outputs=outputs, on_restore=on_restore, group_offsets=settings.group_offsets
        )
    publishing = cast("PublishingSystem", system)
    publisher = publishing.producer(guard.incarnation)
    stack.callback(publisher.close)
    streams = [stream for stream in plan.streams if stream.kind == "intermediate"]
    between = [(stream.name, partition) for stream in streams for partition in range(stream.partitions)]
    log = CommittedLog(plan, publishing, publisher, reset_command(plan, publishing, settings))
    return TwoPhaseCommit(log, between, guard.other_publishers)


def _longest(plan: Plan, settings: Settings) -> timedelta:
    """How long a transaction of a container may be open: a commit waits for the asynchronous calls in flight, of which
    half wait for the other half to end."""
    longest = 2 * sum(call.longest_ms for call in plan.pipeline.calls)
    return settings.interval(seen_early=False) + timedelta(milliseconds=longest)


def make_tasks(
    run: RunContext,
    system: System,
    admin: Admin,
    stack: ExitStack,
    own: Collection[str] | None = None,
    resources: OpenResources | None = None,
) -> list[LocalTask]:
    """Open the tasks of a plan, or those of a container (`own`), each at its last commit, and the resources of their
    operators; `stack` closes them."""
    plan, settings = run.plan, run.settings
    written = _written_between(plan, admin)
    stored = checkpoints_in(system, plan.name)
    if written and not stored:
        raise _another_wrote(plan, written)
    programs = _programs(plan, record_limits(plan, admin), {} if resources is None else resources.clients)

    def open_store(task: str) -> TaskStore:
        return store_for(plan, task, system, settings, run.container)

    # Before the stores are opened: only one process at a time can open the store that state is moved to.
    run.commits.move_states(open_store)
    setups = _setups(run, stored, own, open_store, stack)
    aligned = run.commits.align(setups, stored)
    checkpoints = run.commits.resume(setups, migrate_checkpoints(plan, setups, aligned))
    # A store may have been written after the checkpoints that were checked before.
    records = chain.from_iterable(one.states.items() for one in checkpoints.values())
    refuse_changed(plan, records, reset_command(plan, system, settings))
    # So may messages between stages: a commit that was cut off is published now.
    refuse_changed_borders(plan, system, aligned)
    run = replace(run, border_schemas=next_border_schemas(plan, last_border_schemas(aligned.values())))
    # As late as may be: to restore state may take long, and the event loop stands still meanwhile.
    if resources is not None:
        _open_resources(resources, plan, {setup.stage for setup in setups}, programs, stack)
    starts, ends = cache(admin.starts), cache(admin.ends)  # tasks of a stage need the same offsets
    latest = _begun_at_ends(plan, settings, stored)
    tasks = []
    for setup in setups:
        checkpoint = checkpoints[setup.name]
        queues = InputQueues(_queues(plan, setup, checkpoint, starts, ends, latest))
        task = LocalTask(run, programs[setup.stage], setup, checkpoint, queues)
        stack.callback(task.close)
        tasks.append(task)
    return tasks


def _open_resources(
    resources: OpenResources, plan: Plan, stages: Collection[str], programs: Mapping[str, Program], stack: ExitStack
) -> None:
    """Open the resources that the tasks of a container need; `stack` closes them."""
    stack.callback(resources.close)
    resources.open(plan, stages)
    for program in programs.values():
        stack.callback(program.cancel_batches)  # else they would go on while clients are closed


def _programs(plan: Plan, limits: Mapping[str, SizeLimit], clients: Clients) -> dict[str, Program]:
    """The stages of a plan, compiled, by id."""
    shared: RemoteTableClients = {}
    compiled = partial(compile_stage, plan, trailers=True, remotes=shared, limits=limits, clients=clients)
    return {stage.id: compiled(stage.id, _clocks(plan, stage.inputs)) for stage in plan.stages}


def _setups(
    run: RunContext,
    stored: Checkpoints,
    own: Collection[str] | None,
    open_store: Callable[[str], TaskStore],
    stack: ExitStack,
) -> list[TaskSetup]:
    """The tasks of a plan, or those of a container (`own`), before they run; `stack` closes their stores."""
    plan, setups = run.plan, []
    for stage in plan.stages:
        changelogs = {store.operator: store.changelog for store in plan.stores if store.stage == stage.id}
        for number in range(stage.tasks):
            name = task_name(stage.id, number)
            if own is not None and name not in own:
                continue
            # Operators that the plan no longer has may come back: their state stays in the store.
            idle = not run.commits.early and name in stored and bool(stored[name].states)
            store = open_store(name) if changelogs or idle else MemoryStore()
            stack.callback(store.close)
            inputs = [stream for stream in stage.inputs if number < plan.stream(stream).partitions]
            setups.append(TaskSetup(name, stage.id, number, store, changelogs, inputs, keeps_more=idle))
    return setups


def _queues(
    plan: Plan, setup: TaskSetup, checkpoint: Checkpoint, starts: OffsetsOf, ends: OffsetsOf, latest: Collection[str]
) -> Iterator[InputQueue]:
    """The queues of a task's inputs, each read from its checkpoint on. Without a checkpoint an input is read from its
    start, or from its end if it is in `latest`."""
    bootstrapped, number = bootstrap_streams(plan), setup.number
    for stream in setup.inputs:
        begin = ends(stream) if stream in latest else starts(stream)
        until = ends(stream)[number] if stream in bootstrapped else None
        yield InputQueue(stream, number, checkpoint.offsets.get(stream, begin[number]), bootstrap_until=until)


def _written_between(plan: Plan, admin: Admin) -> str | None:
    """The first intermediate stream that holds messages; None if there is none."""
    between = (stream.name for stream in plan.streams if stream.kind == "intermediate")
    return next((name for name in between if admin.starts(name) != admin.ends(name)), None)


def _another_wrote(plan: Plan, stream: str) -> PlanError:
    """The error for an intermediate stream with messages and no checkpoint: a task commits before it writes to one."""
    wrong = f"the stream {stream!r} between stages of pipeline {plan.name!r} holds another's messages"
    expected = "names of pipelines and partition_by that together name streams of their own"
    return PlanError(explain(wrong, expected, "give one of the two another name", plan.pipeline.origin))


def _clocks(plan: Plan, inputs: tuple[str, ...]) -> dict[str, TimeSource]:
    return {name: "source" if plan.stream(name).kind == "source" else "trailer" for name in inputs}


def _begun_at_ends(plan: Plan, settings: Settings, stored: Checkpoints) -> frozenset[str]:
    """The sources whose partitions are read from their ends, as `offset_default` says. A source that the pipeline has
    read before is not among them: a partition that was added since is read from its start."""
    if settings.offset_default == "earliest":
        return frozenset()
    sources = {stream.name for stream in plan.streams if stream.kind == "source"}
    return frozenset(sources - table_streams(plan) - read_before(stored))

"""The local engine: makes the streams a plan needs, its tasks, and a container that runs them."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import cache
from itertools import chain
from typing import Any, cast

from ...dsl.error_policy import Retry
from ...dsl.errors import PlanError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.task_assignment import task_name
from ..data_warnings.suspicious_times import SuspiciousTimes
from ..kernel.calls.cancellation import run_loop
from ..kernel.code.program import RemoteTableClients
from ..kernel.compiler.compiler import compile_stage
from ..kernel.time.stage_input import TimeSource
from ..output_routes import open_sink
from ..preflight.input_streams import InputStreamMonitor, inputs_of
from ..preflight.state_compatibility import refuse_changed, reset_command
from ..process.interruptions import interruptions_raised
from ..process.resource_limits import exhaustion_explained
from ..process.signals import Stopped, stop_signals
from ..report import OnProgress, Report
from ..state import MemoryStore, TaskStore
from ..systems.contract import Admin, PublishingSystem, RecordProducer, SendingSystem, System
from ..systems.provisioning import bootstrap_streams, make_changelogs, make_streams, refuse_other_counts, table_streams
from .checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from .checkpoints.migration import kept_states, migrate_checkpoints, read_before, refuse_recreated
from .commit.changelog_commit import ChangelogCommit, OnRestore, ignore_restore
from .commit.contract import Commits
from .commit.two_phase_commit import TwoPhaseCommit
from .container import Container
from .coordination.membership import Place, Seat, join
from .gc_tuning import reduced_gc
from .input_queue import InputQueue, InputQueues
from .observe.end_offsets import Ends
from .observe.progress import Telling
from .stores.alignment import CommittedLog
from .stores.survey import missing_stores
from .stores.task_stores import store_for
from .task import LocalTask, RunContext
from .task_setup import TaskSetup

_log = logging.getLogger(__name__)

Offsets = Callable[[str], list[int]]
"""Offsets of a stream, by partition."""


def run(
    plan: Plan,
    system: System,
    settings: Settings,
    until: str,
    progress: OnProgress | None,
    spark: Any = None,
    seat: Seat | None = None,
) -> Report:
    """Run the tasks of one container in this process, all of the plan unless `seat` says otherwise.

    Signals are heeded if this is the main thread; `spark` is not for this engine.
    """
    del spark
    began = time.monotonic()
    container: Container | None = None
    with exhaustion_explained(), stop_signals() as stop:
        try:
            with interruptions_raised(), ExitStack() as stack:
                container = _prepare(plan, system, settings, until, progress, seat or Seat(), stop, stack)
                if container is not None:
                    stop.begin()
                    return run_loop(container.run)
        except Stopped:
            _log.warning("pipeline %r is stopped without a last commit; it goes on from the one before", plan.name)
    if container is None:
        return Report(pipeline=plan.name, engine="local", seconds=time.monotonic() - began, resumed=True)
    return container.report()


def _prepare(
    plan: Plan,
    system: System,
    settings: Settings,
    until: str,
    progress: OnProgress | None,
    seat: Seat,
    stop: Callable[[], bool],
    stack: ExitStack,
) -> Container | None:
    """A container with all that it needs, which `stack` closes; None where its part of the run is done."""
    admin = system.admin()
    _refuse(plan, system, settings)
    make_streams(plan, admin)
    inputs = InputStreamMonitor(plan, system, settings, inputs_of(plan), ends=until != "stopped")
    opened = _open_early(system, settings, stack)
    place = stack.enter_context(join(plan, system, seat, until))
    member = place.membership
    if member.done:
        return None
    ends = Ends(system.admin(), apart=isinstance(system, SendingSystem))
    telling = Telling(
        plan, ends, progress, container=str(member.container), times=SuspiciousTimes(plan), noticed=inputs.warnings
    )
    commits = open_commits(plan, system, admin, settings, place, stack, telling.restoring, opened)
    shared = RunContext(
        member.run,
        plan,
        settings,
        commits,
        asyncio.sleep,
        container=member.container,
        generation=member.generation,
        identities=inputs.identities,
    )
    tasks = make_tasks(shared, system, admin, stack, member.tasks)
    consumer = system.consumer()
    stack.callback(consumer.close)
    open_sinks(plan, stack)
    container = Container(
        plan, tasks, consumer, commits, settings, member.ends, stop, telling, place=place, inputs=inputs
    )
    place.tell("running")
    stack.enter_context(reduced_gc())
    return container


def _refuse(plan: Plan, system: System, settings: Settings) -> None:
    """Raise an error where a run cannot go on with what runs before it have left."""
    stored, reset = checkpoints_in(system, plan.name), reset_command(plan, system, settings)
    refuse_changed(plan, kept_states(plan, stored), reset)
    refuse_recreated(plan, system, stored, reset)
    for problem in missing_stores(plan, system, settings):
        raise problem
    refuse_other_counts(plan, settings)


def _open_early(system: System, settings: Settings, stack: ExitStack) -> RecordProducer | None:
    """The sender of outputs that are no part of a transaction: it gets ready while the container takes its place."""
    if not isinstance(system, SendingSystem) or settings.guarantee == "exactly_once":
        return None
    sender = system.record_producer()
    stack.callback(sender.close)
    return sender


def open_commits(
    plan: Plan,
    system: System,
    admin: Admin,
    settings: Settings,
    place: Place,
    stack: ExitStack,
    on_restore: OnRestore = ignore_restore,
    opened: RecordProducer | None = None,
) -> Commits:
    """How tasks commit to a system; `stack` closes what it writes through. `opened` sends outputs before a commit."""
    member = place.membership
    if isinstance(system, SendingSystem):
        make_changelogs(plan, admin)
        for id in member.fenced:
            system.record_producer(id).close()
        longest = _longest(plan, settings) if opened is None else timedelta(0)
        sender = system.record_producer(member.transactional_id, longest=longest)
        stack.callback(sender.close)
        return ChangelogCommit(
            plan.name,
            system,
            sender,
            outputs=opened,
            on_restore=on_restore,
            group_offsets=settings.group_offsets,
        )
    published = cast("PublishingSystem", system)
    producer = published.producer(place.incarnation)
    stack.callback(producer.close)
    streams = [stream for stream in plan.streams if stream.kind == "intermediate"]
    between = [(stream.name, partition) for stream in streams for partition in range(stream.partitions)]
    log = CommittedLog(plan, published, producer, reset_command(plan, published, settings))
    return TwoPhaseCommit(log, between, place.publishing_beside)


def _longest(plan: Plan, settings: Settings) -> timedelta:
    """How long a transaction of a container may be open: it waits for the calls that are under way."""
    once = Retry(attempts=1)
    longest = sum((call.retry or once).longest_ms(call.timeout) for call in plan.pipeline.calls)
    return settings.interval(seen_early=False) + timedelta(milliseconds=longest)


def make_tasks(
    run: RunContext, system: System, admin: Admin, stack: ExitStack, own: Collection[str] | None = None
) -> list[LocalTask]:
    """The tasks of a plan, or its `own` of a container, each where its last commit left it; `stack` closes them."""
    plan, settings = run.plan, run.settings
    written = _written_between(plan, admin)
    stored = checkpoints_in(system, plan.name)
    if written and not stored:
        raise _another_wrote(plan, written)
    remotes: RemoteTableClients = {}
    programs = {
        stage.id: compile_stage(plan, stage.id, _clocks(plan, stage.inputs), trailers=True, remotes=remotes)
        for stage in plan.stages
    }

    def open_store(task: str) -> TaskStore:
        return store_for(plan, task, system, settings, run.container)

    run.commits.move_states(open_store)
    setups = _setups(run, stored, own, open_store, stack)
    settled = run.commits.align(setups, stored)
    checkpoints = run.commits.resume(setups, migrate_checkpoints(plan, setups, settled))
    # A store may have been written after the checkpoints that were looked at before.
    records = chain.from_iterable(one.states.items() for one in checkpoints.values())
    refuse_changed(plan, records, reset_command(plan, system, settings))
    starts, ends = cache(admin.starts), cache(admin.ends)  # tasks of a stage ask the same
    latest = _begun_at_ends(plan, settings, stored)
    tasks = []
    for setup in setups:
        checkpoint = checkpoints[setup.name]
        queues = InputQueues(_queues(plan, setup, checkpoint, starts, ends, latest))
        task = LocalTask(run, programs[setup.stage], setup, checkpoint, queues)
        stack.callback(task.close)
        tasks.append(task)
    return tasks


def _setups(
    run: RunContext,
    stored: Checkpoints,
    own: Collection[str] | None,
    open_store: Callable[[str], TaskStore],
    stack: ExitStack,
) -> list[TaskSetup]:
    """The tasks of a plan before they run, or the `own` ones of a container; `stack` closes their stores."""
    plan, setups = run.plan, []
    for stage in plan.stages:
        changelogs = {store.operator: store.changelog for store in plan.stores if store.stage == stage.id}
        for number in range(stage.tasks):
            name = task_name(stage.id, number)
            if own is not None and name not in own:
                continue
            # Operators that are gone may come back: their state stays in the store, which follows the task's commits.
            idle = not run.commits.early and name in stored and bool(stored[name].states)
            store = open_store(name) if changelogs or idle else MemoryStore()
            stack.callback(store.close)
            inputs = [stream for stream in stage.inputs if number < plan.stream(stream).partitions]
            setups.append(TaskSetup(name, stage.id, number, store, changelogs, inputs, keeps_more=idle))
    return setups


def _queues(
    plan: Plan, setup: TaskSetup, checkpoint: Checkpoint, starts: Offsets, ends: Offsets, latest: Collection[str]
) -> Iterator[InputQueue]:
    """The inputs of a task, each to be read from its checkpoint on. Without a checkpoint an input begins at its start,
    and the `latest` ones at their end."""
    bootstrapped, number = bootstrap_streams(plan), setup.number
    for stream in setup.inputs:
        begin = ends(stream) if stream in latest else starts(stream)
        until = ends(stream)[number] if stream in bootstrapped else None
        yield InputQueue(stream, number, checkpoint.offsets.get(stream, begin[number]), bootstrap_until=until)


def _written_between(plan: Plan, admin: Admin) -> str | None:
    """A stream between the stages that holds messages."""
    between = (stream.name for stream in plan.streams if stream.kind == "intermediate")
    return next((name for name in between if admin.starts(name) != admin.ends(name)), None)


def _another_wrote(plan: Plan, stream: str) -> PlanError:
    """Nothing is written between the stages before there is a checkpoint of its writer."""
    wrong = f"the stream {stream!r} between stages of pipeline {plan.name!r} holds another's messages"
    expected = "names of pipelines and partition_by that together name streams of their own"
    return PlanError(explain(wrong, expected, "give one of the two another name", plan.pipeline.origin))


def _clocks(plan: Plan, inputs: tuple[str, ...]) -> dict[str, TimeSource]:
    return {name: "source" if plan.stream(name).kind == "source" else "trailer" for name in inputs}


def _begun_at_ends(plan: Plan, settings: Settings, stored: Checkpoints) -> frozenset[str]:
    """The sources of which a partition without a checkpoint is begun at its end. One that a stream was given after the
    pipeline had begun with it is new as a whole, and no message of it is left out."""
    if settings.offset_default == "earliest":
        return frozenset()
    sources = {stream.name for stream in plan.streams if stream.kind == "source"}
    return frozenset(sources - table_streams(plan) - read_before(stored))


def open_sinks(plan: Plan, stack: ExitStack) -> None:
    """Open the sinks of a plan; `stack` closes them."""
    for operator in plan.pipeline.sinks:
        open_sink(operator)
        stack.callback(operator.sink.close)

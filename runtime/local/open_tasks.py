"""Opens the tasks of a container: each with its program, its store and its inputs, at its last commit."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain

from ...dsl.errors import PlanError, SystemProblem
from ...dsl.validation import explain
from ...planner.border_schema import next_border_schemas
from ...planner.grouping import only_input
from ...planner.growths import fits, grown, partitions_read
from ...planner.plan import Plan, PlannedStage
from ...planner.settings import Settings
from ...planner.stream_names import growth_of
from ...planner.task_assignment import TaskId, tasks_in
from ..kernel.calls.function_pools import loop_pools
from ..kernel.code.program import Clients, Program, RemoteTableClients
from ..kernel.compiler.compiler import compile_stage
from ..kernel.time.stage_input import TimeSource
from ..open_resources import OpenResources
from ..preflight.state_compatibility import changed_states, refuse_changed, reset_command
from ..process.clock import wall_clock
from ..size_limit import SizeLimit
from ..state import MemoryStore, TaskStore
from ..systems.contract import Admin, ProducingSystem, System
from ..systems.provisioning import bootstrap_streams, input_priorities, record_limits, table_streams
from .checkpoints.border_compatibility import last_border_schemas, refuse_changed_borders
from .checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from .checkpoints.migration import migrate_checkpoints, read_before
from .holds import with_growths
from .input_queue import InputQueue, InputQueues
from .open_journals import open_journals
from .run_context import RunContext
from .stores.store_closer import StoreCloser
from .stores.task_stores import remove_others, store_for
from .task import LocalTask
from .task_setup import TaskSetup

OffsetsOf = Callable[[str], list[int]]
"""Returns the offsets of a stream, by partition."""


class Programs:
    """The compiled stages of a plan. A stage has another program where its tasks are split by key, which may change
    while they run."""

    def __init__(self, plan: Plan, limits: Mapping[str, SizeLimit], clients: Clients) -> None:
        shared: RemoteTableClients = {}
        self._plan = plan
        self._compile = partial(compile_stage, trailers=True, remotes=shared, limits=limits, clients=clients)
        self._compiled: dict[tuple[str, bool], Program] = {}
        for stage in plan.stages:  # before anything runs: what cannot be compiled is refused at once
            self.of(stage.id, split=stage.elasticity > 1)

    def of(self, stage: str, *, split: bool) -> Program:
        """The program of a stage, which is compiled once for all its tasks."""
        if (stage, split) not in self._compiled:
            clocks = _clocks(self._plan, self._plan.stage(stage).inputs)
            self._compiled[stage, split] = self._compile(self._plan, stage, clocks, split=split)
        return self._compiled[stage, split]

    def grow(self, plan: Plan) -> None:
        """Have programs of a plan in which sources have grown from now on."""
        before, self._plan = self._plan, plan
        same = {new.name for old, new in zip(before.streams, plan.streams, strict=True) if old == new}
        unchanged = {stage.id for stage in plan.stages if same.issuperset(stage.inputs)}
        self._compiled = {of: program for of, program in self._compiled.items() if of[0] in unchanged}

    def cancel_batches(self) -> None:
        """Cancel what the clients of remote tables have in flight."""
        for program in self._compiled.values():
            program.cancel_batches()


@dataclass(slots=True)
class TaskOpener:
    """Opens tasks of a run, one by one: those that it begins with, and those that other containers hand over. `run` has
    the plan as sources have grown by now; `wall` returns ms since epoch."""

    run: RunContext
    system: System
    admin: Admin
    programs: Programs
    latest: frozenset[str]
    wall: Callable[[], int] = wall_clock
    closer: StoreCloser = field(default_factory=StoreCloser)

    def prepare(self, task: str) -> TaskSetup:
        """A task with its store, which whoever asks for it has to close."""
        self.closer.wait(task)
        id = TaskId.parse(task)
        return _setup(self.run.plan, self.run.plan.stage(id.stage), id, keeps_more=False, open_store=self.open_store)

    def open_store(self, task: str) -> TaskStore:
        """Open the store of a task, which the caller closes."""
        return store_for(self.run.plan, task, self.system, self.run.settings, self.run.container)

    def refuse_newer(self, task: str, checkpoint: Checkpoint) -> None:
        """Raise SystemProblem where the state of a task that another container has, or had, means something else here:
        containers may have different versions of the pipeline for a while."""
        reset = reset_command(self.run.plan, self.system, self.run.settings)
        for changed in changed_states(self.run.plan, checkpoint.states.items(), reset):
            wrong = f"task {task!r} was in a container with another version of the pipeline: {changed}"
            expected = "a meaning that this version can go on with; see the guide on upgrades"
            remedy = "stop this container, and start it with the version of the others"
            raise SystemProblem(explain(wrong, expected, remedy, changed.origin))

    def remove_others(self, tasks: Collection[str]) -> None:
        """Remove the stores of this container that are of other tasks than these, which are all that there are."""
        self.closer.wait_for_all(but=tasks)
        remove_others(self.run.plan, self.system, self.run.settings, self.run.container, tasks)

    def open(self, setup: TaskSetup, checkpoint: Checkpoint) -> LocalTask:
        """A task that goes on from a checkpoint, of which its store has the state."""
        return self.open_all([(setup, checkpoint)])[0]

    def open_all(self, tasks: Iterable[tuple[TaskSetup, Checkpoint]], *, taken_over: bool = False) -> list[LocalTask]:
        """Tasks that go on from their checkpoints. Those that are `taken_over` from containers that run have processed
        their bootstrap streams already, unless the checkpoint says otherwise."""
        starts, ends = cache(self.admin.starts), cache(self.admin.ends)  # tasks of a stage need the same offsets
        priorities = input_priorities(self.run.plan)
        opened = []
        for prepared, last in tasks:
            self._know(prepared.stage, last)
            # It may have been prepared before a source has grown.
            setup = replace(prepared, partitions=partitions_read(self.run.plan, prepared.stage, prepared.number))
            checkpoint = with_growths(last, setup.inputs, self._held_until)
            first = not taken_over or checkpoint.blank or checkpoint.bootstrapping
            bootstrapped = bootstrap_streams(self.run.plan) if first else frozenset()
            queues = InputQueues(_queues(setup, checkpoint, starts, ends, self.latest, bootstrapped, priorities))
            program = self.programs.of(setup.stage, split=setup.elasticity > 1)
            journals = open_journals(self.run, self.system, setup, checkpoint, queues)
            opened.append(LocalTask(self.run, program, setup, checkpoint, queues, journals))
        return opened

    def reopened(self, task: LocalTask) -> LocalTask:
        """A task that has been committed, with nothing in flight, with the partitions that sources have got since."""
        (again,) = self.open_all([(task.setup, task.checkpoint)], taken_over=True)
        again.generation = task.generation
        return again

    def grow(self, counts: Mapping[str, int]) -> None:
        """Have these partition counts of sources, as far as they are larger, for tasks that are opened from now on."""
        plan = grown(self.run.plan, counts)
        if plan is not self.run.plan:
            self.programs.grow(plan)
            self.run = replace(self.run, plan=plan)

    def _know(self, stage: str, checkpoint: Checkpoint) -> None:
        """Know the growths that a task has read in another container, which has heard of them before this one."""
        streams = {name: self.run.plan.stream(name) for name in self.run.plan.stage(stage).inputs}
        known = [growth_of(name) for name in checkpoint.offsets]
        read = {name: growth + 1 for name, growth in sorted(known) if name in streams}
        unknown = {name: number for name, number in read.items() if number > streams[name].growths}
        if unknown and isinstance(self.system, ProducingSystem):
            counts = {name: one.partitions for name, one in self.system.admin().describe(unknown).items()}
            least = {name: min(counts[name], unknown[name] * streams[name].spread) for name in counts}
            self.grow(least)
            # Of what tasks cannot follow as it is now they read on what they have read.
            self.grow({name: count for name, count in counts.items() if fits(self.run.plan, name, count)})

    @property
    def _held_until(self) -> int:
        """Until when producers may write to the partitions that there were before those which are found now."""
        return self.wall() + (self.system.admin().metadata_ms if isinstance(self.system, ProducingSystem) else 0)


def make_tasks(
    run: RunContext,
    system: System,
    admin: Admin,
    stack: ExitStack,
    own: Collection[str] | None = None,
    resources: OpenResources | None = None,
) -> list[LocalTask]:
    """Open the tasks of a plan, or those of a container (`own`), each at its last commit, and the resources of their
    operators; `stack` closes them. Those of a container may have another elasticity than the plan."""
    return open_tasks(run, system, admin, stack, own, resources)[0]


def open_tasks(
    run: RunContext,
    system: System,
    admin: Admin,
    stack: ExitStack,
    own: Collection[str] | None = None,
    resources: OpenResources | None = None,
    *,
    may_get_more: bool = False,
    wall: Callable[[], int] = wall_clock,
) -> tuple[list[LocalTask], TaskOpener]:
    """What `make_tasks` does, and what opens more of them. Where other containers may hand over tasks of any stage
    (`may_get_more`), the resources of all stages are opened."""
    plan, settings = run.plan, run.settings
    written = _written_between(plan, admin)
    stored = checkpoints_in(system, plan.name)
    if written and not stored:
        raise _another_wrote(plan, written)
    programs = Programs(plan, record_limits(plan, admin), {} if resources is None else resources.clients)
    opener = TaskOpener(run, system, admin, programs, _begun_at_ends(plan, settings, stored), wall)
    # Before the stores are opened: only one process at a time can open the store that state is moved to.
    run.commits.move_states(opener.open_store)
    setups = _setups(run, stored, own, opener.open_store, stack)
    aligned = run.commits.align(setups, stored)
    checkpoints = run.commits.resume(setups, migrate_checkpoints(plan, setups, aligned))
    # A store may have been written after the checkpoints that were checked before.
    records = chain.from_iterable(one.states.items() for one in checkpoints.values())
    refuse_changed(plan, records, reset_command(plan, system, settings))
    # So may messages between stages: a commit that was cut off is published now.
    refuse_changed_borders(plan, system, aligned)
    run = replace(run, border_schemas=next_border_schemas(plan, last_border_schemas(aligned.values())))
    opener = replace(opener, run=run)
    # As late as may be: to restore state may take long, and the event loop stands still meanwhile.
    if resources is not None:
        stages = {stage.id for stage in plan.stages} if may_get_more else {setup.stage for setup in setups}
        _open_resources(resources, plan, stages, programs, stack)
    tasks = opener.open_all((setup, checkpoints[setup.name]) for setup in setups)
    for task in tasks:
        stack.callback(task.close)
    return tasks, opener


def _open_resources(
    resources: OpenResources, plan: Plan, stages: Collection[str], programs: Programs, stack: ExitStack
) -> None:
    """Open the resources that the tasks of a container need; `stack` closes them."""
    stack.callback(resources.close)
    resources.open(plan, stages)
    stack.callback(programs.cancel_batches)  # else they would go on while clients are closed


def _setups(
    run: RunContext,
    stored: Checkpoints,
    own: Collection[str] | None,
    open_store: Callable[[str], TaskStore],
    stack: ExitStack,
) -> list[TaskSetup]:
    """The tasks of a plan, or those of a container (`own`), before they run; `stack` closes their stores."""
    names = [task.name for stage in run.plan.stages for task in tasks_in(stage)] if own is None else own
    setups = []
    for task in in_order(run.plan, names):
        # Operators that the plan no longer has may come back: their state stays in the store.
        keeps_more = not run.commits.early and task.name in stored and bool(stored[task.name].states)
        setup = _setup(run.plan, run.plan.stage(task.stage), task, keeps_more=keeps_more, open_store=open_store)
        stack.callback(setup.store.close)
        setups.append(setup)
    return setups


def in_order(plan: Plan, tasks: Iterable[str]) -> list[TaskId]:
    """Tasks in the order in which a container runs them: that of the stages in the plan."""
    stages = {stage.id: at for at, stage in enumerate(plan.stages)}
    return sorted(map(TaskId.parse, tasks), key=lambda task: (stages[task.stage], *task[1:]))


def ordered(plan: Plan, tasks: Iterable[LocalTask]) -> list[LocalTask]:
    """Tasks in the order in which a container runs them."""
    by_name = {task.name: task for task in tasks}
    return [by_name[id.name] for id in in_order(plan, by_name)]


def close_tasks(tasks: Iterable[LocalTask]) -> None:
    """Close the last tasks of a run, in whose event loop this is called."""
    # Before they cancel their calls: a cancellation ends a process, which nobody needs in its place.
    loop_pools(asyncio.get_running_loop()).wind_down()
    for task in tasks:
        task.close()


def _setup(
    plan: Plan,
    stage: PlannedStage,
    task: TaskId,
    *,
    keeps_more: bool,
    open_store: Callable[[str], TaskStore],
) -> TaskSetup:
    stores = [store for store in plan.stores if store.stage == stage.id]
    store = open_store(task.name) if stores or keeps_more else MemoryStore()
    return TaskSetup(
        name=task.name,
        stage=stage.id,
        number=task.number,
        store=store,
        changelogs={store.operator: store.changelog for store in stores},
        partitions=partitions_read(plan, stage.id, task.number),
        keeps_more=keeps_more,
        bucket=task.bucket,
        elasticity=task.elasticity,
        producer=task.bucket * stage.tasks + task.number,
        schemas={store.operator: store.schema for store in stores},
        input=only_input(plan, stage.id, task.number),
    )


def _queues(
    setup: TaskSetup,
    checkpoint: Checkpoint,
    starts: OffsetsOf,
    ends: OffsetsOf,
    latest: Collection[str],
    bootstrapped: Collection[str],
    priorities: Mapping[str, int],
) -> Iterator[InputQueue]:
    """The queues of a task's inputs, each read from its checkpoint on. Without a checkpoint an input is read from its
    start, or from its end if it is in `latest`."""
    for name, (stream, partition) in setup.partitions.items():
        _, growth = growth_of(name)
        # What comes to partitions that are new is not older than the pipeline.
        begin = (ends if stream in latest and not growth else starts)(stream)
        # A growth that is held would hold up all others.
        first = stream in bootstrapped and name not in checkpoint.holds
        until = ends(stream)[partition] if first else None
        offset = checkpoint.offsets.get(name, begin[partition])
        priority = priorities.get(stream, 0)
        yield InputQueue(stream, partition, offset, bootstrap_until=until, growth=growth, priority=priority)


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

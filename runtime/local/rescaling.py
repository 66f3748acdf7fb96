"""Changes the elasticity of a pipeline between two runs: the checkpoints and the state of its tasks are split over more
key buckets, or merged into fewer (ADR 0051).

One entry of the system changes all checkpoints: after a crash either the old tasks count, or the new ones. Tasks that
are to be merged first run until they have read equally far.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Literal, cast

from ...dsl.errors import PlanError, SystemProblem
from ...dsl.validation import explain
from ...planner.growths import partitions_read
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.state_schema import StateSchema
from ...planner.task_assignment import TaskId
from ..kernel.key_buckets import bucket_of
from ..kernel.state_backend import Change
from ..kernel.state_keys import is_of_all_keys, key_of_record
from ..preflight.state_compatibility import reset_command
from ..process.machine import THIS_MACHINE, Machine
from ..state.contract import TaskStore
from ..systems.contract import ProducingSystem, PublishingSystem, StreamPartition, System
from ..systems.provisioning import bootstrap_streams, table_streams
from .checkpoints import checkpoint as checkpoints
from .checkpoints.border_compatibility import holds_unread_messages
from .checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from .checkpoints.rescaled import (
    apart,
    changed_stages,
    ended_apart,
    merged_stages,
    plan_before,
    rescaled,
    rescaled_numbers,
)
from .coordination.exclusion import no_containers
from .stores.alignment import CommittedLog, align
from .stores.state_moves import PIECE_BYTES
from .stores.store_keys import META, MOVED, prefix_of
from .stores.task_stores import every_folder, folder_name, store_for, without_number

CatchUp = Callable[[Plan, Mapping[StreamPartition, int], Literal["caught-up", "end"]], None]
"""Runs the tasks of a plan until they have read the sources up to these offsets, as a run that catches up or one to the
end does."""


def refuse_other_elasticity(plan: Plan, stored: Checkpoints) -> None:
    """Raise PlanError if the tasks of a pipeline have another elasticity in their checkpoints than in the plan."""
    changed = [
        f"stage {new.name!r} has {old.elasticity}, and is to have {new.elasticity}"
        for old, new in changed_stages(plan_before(plan, stored), plan)
    ]
    if changed:
        wrong = f"the elasticity of pipeline {plan.name!r} is to change, and this process is one of several containers"
        wrong += f": {'; '.join(changed)}"
        expected = "tasks that are split as in their checkpoints"
        remedy = "stop its containers, and let one process change it: fluvial run without --container-id"
        raise PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))


def rescale(
    before: Plan, plan: Plan, system: System, settings: Settings, catch_up: CatchUp, machine: Machine = THIS_MACHINE
) -> None:
    """Give the tasks of a pipeline the elasticity of the plan; `before` is the plan with the one that they have.
    `catch_up` runs tasks that have to come equally far before they are merged.

    Raises SystemProblem while a container of the pipeline is alive, and where a store does not fit its checkpoint;
    PlanError for state that cannot be split."""
    stored = checkpoints_in(system, plan.name)
    ended = ended_apart(before, plan, stored)
    if ended or not _can_merge(before, plan, system, stored):
        # Where some have reached an end of input, the others reach it, too.
        catch_up(before, _offsets_to_meet(before, system, stored), "end" if ended else "caught-up")
    with no_containers(plan.name, system, machine):
        if not isinstance(system, ProducingSystem):
            # Before checkpoints are read: a crash may have left a last commit in a store alone.
            _align(before, plan, cast("PublishingSystem", system), settings)
        stored = checkpoints_in(system, plan.name)
        if not _can_merge(before, plan, system, stored):
            wrong = f"the tasks of pipeline {plan.name!r} have not come equally far, so that they cannot be merged: "
            wrong += "they were stopped, another run has moved some of them on, or some have fired what others have not"
            expected = "tasks that have read the same messages, and fired the same windows"
            remedy = "start the run again; if that does not help, run it with the elasticity of before until later "
            remedy += "messages have come, and change it then"
            raise SystemProblem(explain(wrong, expected, remedy, plan.pipeline.origin))
        _rescale(before, plan, system, settings, stored)


def _can_merge(before: Plan, now: Plan, system: System, stored: Checkpoints) -> bool:
    """Whether tasks that are to be merged have come equally far, and what they have written behind a border is read: a
    reader forgets the watermarks of producers that there are no more."""
    written = {stream for stage in merged_stages(before, now) for stream in stage.outputs}
    between = [stream.name for stream in now.streams if stream.kind == "intermediate" and stream.name in written]
    unread = any(holds_unread_messages(system, stream, stored) for stream in between)
    return not unread and not apart(before, now, stored)


def _offsets_to_meet(before: Plan, system: System, stored: Checkpoints) -> dict[StreamPartition, int]:
    """The offsets of the sources up to which one of the tasks of a number has read. Streams that are read first, before
    all others, are read to their ends: the others wait for that."""
    admin, ends = system.admin(), dict[StreamPartition, int]()
    first = bootstrap_streams(before) | table_streams(before)
    for stream in (stream.name for stream in before.streams if stream.kind == "source"):
        unread = admin.ends(stream) if stream in first else admin.starts(stream)
        ends.update({(stream, number): offset for number, offset in enumerate(unread)})
    stages = {stage.id for stage in before.stages}
    for name, checkpoint in stored.items():
        id = TaskId.parse(name)
        partitions = partitions_read(before, id.stage, id.number) if id.stage in stages else {}
        for input, offset in checkpoint.offsets.items():
            if (partition := partitions.get(input)) in ends:
                ends[partition] = max(ends[partition], offset)
    return ends


def _align(before: Plan, now: Plan, system: PublishingSystem, settings: Settings) -> None:
    """Bring the stores of tasks that are to be replaced to the commits of their checkpoints."""
    with closing(system.producer()) as producer:
        log = CommittedLog(before, system, producer, reset_command(before, system, settings))
        for task in (task for old, _ in rescaled_numbers(before, now) for task in old):
            operators = [store.operator for store in before.stores if store.stage == task.stage]
            if operators:
                with closing(store_for(before, task.name, system, settings)) as store:
                    align(log, task.name, store, operators)


def _rescale(before: Plan, now: Plan, system: System, settings: Settings, stored: Checkpoints) -> None:
    old: list[TaskId] = []
    renewed: dict[TaskId, Checkpoint] = {}
    for tasks, new in rescaled_numbers(before, now):
        of_number = rescaled(tasks, new, stored)
        # On Kafka the stores of the new tasks are restored from the changelogs, which all of them share.
        if not isinstance(system, ProducingSystem):
            _copy_state(now, system, settings, tasks, of_number, stored)
        old += tasks
        renewed |= of_number
    removed = {task.name: b"" for task in old if task.name in stored}
    with closing(system.producer()) as producer:
        producer.begin().commit(
            now.name, removed | {task.name: checkpoints.encode(one) for task, one in renewed.items()}
        )
    # Last: until the log says otherwise, the old tasks are those that count.
    _remove_stores(now, system, settings, old)


def _remove_stores(plan: Plan, system: System, settings: Settings, tasks: Sequence[TaskId]) -> None:
    """Remove the stores of tasks that there are no more. A crash may leave some; nothing reads them."""
    gone = {folder_name(task.name) for task in tasks}
    for folder in every_folder(plan, system, settings):
        if without_number(folder) in gone:
            shutil.rmtree(folder, ignore_errors=True)


def _copy_state(
    plan: Plan,
    system: System,
    settings: Settings,
    old: Sequence[TaskId],
    made: Mapping[TaskId, Checkpoint],
    stored: Checkpoints,
) -> None:
    """Copy the state of the tasks of a number to the stores of the new ones. These count once the log has the
    checkpoints that are noted in them."""
    if not any(one.states for one in made.values()):
        return
    with ExitStack() as stack:

        def opened(task: TaskId) -> TaskStore:
            return stack.enter_context(closing(store_for(plan, task.name, system, settings)))

        targets = {task: opened(task) for task in made}
        # A change that was cut off may have left a part of its copy there.
        for store in targets.values():
            store.clear()
        for task in (task for task in old if task.name in stored):
            mine = {target: targets[target] for target in targets if task.shares_keys(target)}
            _copy(plan, opened(task), stored[task.name].states, mine)
        for task, store in targets.items():
            store.write([(META, MOVED, checkpoints.encode(made[task]))])
            # Before the log has the new checkpoints: after a power cut the state would be gone for which they stand.
            store.sync()


def _copy(
    plan: Plan, source: TaskStore, states: Mapping[str, StateSchema], targets: Mapping[TaskId, TaskStore]
) -> None:
    """Copy the state of a store to those of its new tasks, in pieces, each entry to that of its key."""
    pieces: dict[TaskId, list[Change]] = {task: [] for task in targets}
    by_bucket = {task.bucket: task for task in targets}
    elasticity = next(iter(targets)).elasticity

    def of_key(operator: str, schema: StateSchema, entry: bytes) -> TaskId:
        key = key_of_record(schema, entry)
        if key is None:
            raise _unsplittable(plan, operator)
        return by_bucket[bucket_of(key, elasticity)]

    size = 0
    for operator, schema in states.items():
        prefix = prefix_of(operator)
        for entry, value in source.scan(prefix):
            for task in by_bucket.values() if is_of_all_keys(schema, entry) else [of_key(operator, schema, entry)]:
                pieces[task].append((prefix, entry, value))
            size += len(entry) + len(value)
            if size >= PIECE_BYTES:
                _write(pieces, targets)
                size = 0
    _write(pieces, targets)


def _write(pieces: Mapping[TaskId, list[Change]], targets: Mapping[TaskId, TaskStore]) -> None:
    for task, piece in pieces.items():
        targets[task].write(piece)
        piece.clear()


def _unsplittable(plan: Plan, operator: str) -> PlanError:
    wrong = f"the state of {operator!r} has an entry that does not tell the key that it is of, so it cannot be split"
    remedy = f"leave the elasticity as it was, or start over without the state: fluvial reset --state {operator}"
    return PlanError(explain(wrong, "entries that this version wrote", remedy, plan.pipeline.origin))

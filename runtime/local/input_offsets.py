"""The offsets of inputs in the checkpoints of a pipeline: shown, and set while no container runs (ADR 0058)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cache
from typing import cast

import networkx as nx
from msgspec import Struct, structs

from ...dsl.errors import PlanError, UnsupportedError, UsageError
from ...dsl.operators import table_id
from ...dsl.text import plural
from ...dsl.validation import explain, require
from ...planner.grouping import only_input
from ...planner.growths import partitions_read
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.task_assignment import TaskId, tasks_in
from ..preflight.input_streams import descriptions_of, recreated
from ..preflight.state_compatibility import reset_command
from ..process.clock import wall_clock
from ..state import RocksStore
from ..systems.contract import ProducingSystem, PublishingSystem, StreamPartition, System
from ..systems.provisioning import table_streams
from ..systems.start_points import StartPoint, offsets_of
from .checkpoints.checkpoint import Checkpoint, Checkpoints, encode, write_checkpoints
from .checkpoints.migration import number_of
from .checkpoints.rescaled import plan_before
from .holds import with_growths
from .journals.removal import ends_of_journals
from .stores.alignment import finish_move
from .stores.store_keys import META, MOVED
from .stores.task_stores import state_folder, task_folders

OffsetByPartition = Mapping[StreamPartition, int]
"""An offset for each of some partitions."""
OffsetsByTask = Mapping[str, OffsetByPartition]
"""The offsets that tasks go on from."""


class InputOffset(Struct, frozen=True, kw_only=True):
    """The offset from which a task goes on in a partition of an input, as of its last commit. `lag` is how many offsets
    are behind it, up to the end of the partition; `commit` is the number of the task's commits. `between` says that the
    stream is between two stages.

    >>> InputOffset(task="clicks/0", stream="clicks", partition=0, offset=120, lag=80, commit=7).between
    False
    """

    task: str
    stream: str
    partition: int
    offset: int
    lag: int
    commit: int
    between: bool = False


class OffsetChange(Struct, frozen=True, kw_only=True):
    """An offset of an input that is set: from `before` to `offset`. `before` is None where the task had none, since it
    has never committed, or not read the input.

    >>> str(OffsetChange(task="clicks/0", stream="clicks", partition=0, before=120, offset=40))
    'clicks, partition 0, in task clicks/0: from 120 to 40, 80 back'
    """

    task: str
    stream: str
    partition: int
    before: int | None
    offset: int

    @property
    def back(self) -> bool:
        """Whether records that were read before are read again."""
        return self.before is not None and self.offset < self.before

    def __str__(self) -> str:
        where = f"{self.stream}, partition {self.partition}, in task {self.task}"
        if self.before is None:
            return f"{where}: to {self.offset}"
        moved = self.offset - self.before
        way = f", {abs(moved):,} {'back' if moved < 0 else 'on'}" if moved else ""
        return f"{where}: from {self.before} to {self.offset}{way}"


def refuse_without_checkpoints(plan: Plan, system: System, settings: Settings) -> None:
    """Raise UnsupportedError for a system whose checkpoints end with the process."""
    if not isinstance(system, ProducingSystem) and state_folder(plan, system, settings) is None:
        wrong = f"checkpoints on {system.url} cannot be shown or set"
        raise UnsupportedError(explain(wrong, "log:DIR or kafka://HOST:PORT", "begin with a new system in memory"))


def input_offsets(plan: Plan, system: System, stored: Checkpoints) -> list[InputOffset]:
    """The offsets of the inputs of each task that has committed. Streams that the pipeline does not read any more are
    left out."""
    admin = system.admin()
    ends = cache(lambda stream: admin.ends(stream) if admin.partitions(stream) is not None else [])
    rows = []
    for task, partitions in _partitions_of(plan, stored):
        last = stored.get(task, Checkpoint())
        for name, (stream, partition) in partitions.items():
            if name in last.offsets:
                # A stream that is gone, or smaller than it was, has no lag that is known.
                end = max([last.offsets[name], *ends(stream)[partition : partition + 1]])
                rows.append(
                    InputOffset(
                        task=task,
                        stream=stream,
                        partition=partition,
                        offset=last.offsets[name],
                        lag=end - last.offsets[name],
                        commit=last.number,
                        between=plan.stream(stream).kind == "intermediate",
                    )
                )
    return rows


def settable(plan: Plan) -> dict[str, int]:
    """The partition counts of the streams whose offsets can be set: the sources."""
    return {stream.name: stream.partitions for stream in plan.streams if stream.kind == "source"}


def refuse_between(plan: Plan, streams: Collection[str]) -> None:
    """Raise PlanError for a stream between two stages: the offsets there belong to the stage that writes it."""
    between = {stream.name for stream in plan.streams if stream.kind == "intermediate"}
    for stream in streams:
        if stream in between:
            wrong = f"stream {stream!r} is between two stages of pipeline {plan.name!r}: its records are removed once "
            wrong += "they are read, and what is skipped there is lost, with the watermarks that it carries"
            raise PlanError(explain(wrong, f"one of {', '.join(settable(plan))}", "set the offsets of a source"))


def named_offsets(
    plan: Plan,
    system: System,
    points: Mapping[str, StartPoint],
    inputs: Mapping[str, int],
    default: StartPoint,
    read: Collection[str] = (),
) -> dict[StreamPartition, int]:
    """The offsets that start points name, see `offsets_of`, of `inputs` by their partition counts. Of a stream that is
    not among those that were `read` before, partitions without a start point have the `default`: once a partition has
    an offset, the stream counts as read, and others would be read from their starts.

    Raises UsageError for a name that is no text, PlanError for a stream between two stages, and what `offsets_of`
    raises."""
    for name in points:
        wrong, expected = f"start point of {name!r}", "the name of a stream, or STREAM/PARTITION"
        require(isinstance(name, str), UsageError, wrong, expected, "write inputs={'clicks': 'earliest'}")
    streams = {name.partition("/")[0] for name in points}
    refuse_between(plan, streams)
    defaults: dict[str, StartPoint] = dict.fromkeys((streams & inputs.keys()) - {*read}, default)
    return offsets_of(system, {**defaults, **points}, inputs)


def by_task(plan: Plan, stored: Checkpoints, offsets: OffsetByPartition) -> dict[str, dict[StreamPartition, int]]:
    """The offsets by the tasks that read the partitions: of a task that is split, all its key buckets."""
    tasks: dict[str, dict[StreamPartition, int]] = {}
    for task, partitions in _partitions_of(plan, stored):
        for partition in partitions.values():
            if partition in offsets:
                tasks.setdefault(task, {})[partition] = offsets[partition]
    return tasks


def start_points(plan: Plan, offsets: OffsetByPartition) -> dict[str, Checkpoint]:
    """The checkpoints of tasks that have no state, and begin at these offsets."""
    checkpoints: dict[str, Checkpoint] = {}
    for task, partitions in _partitions_of(plan, {}):
        known = {name: offsets[partition] for name, partition in partitions.items() if partition in offsets}
        if known:
            id = TaskId.parse(task)
            checkpoints[task] = Checkpoint(offsets=known, input=only_input(plan, id.stage, id.number))
    return checkpoints


def changes_of(
    plan: Plan,
    system: System,
    settings: Settings,
    stored: Checkpoints,
    offsets: OffsetsByTask,
    wall: Callable[[], int] = wall_clock,
) -> tuple[list[OffsetChange], dict[str, Checkpoint]]:
    """What changes where tasks get these offsets, and the `stored` checkpoints with them. What a checkpoint has besides
    stays: state, watermarks, timers; but no kept result of a call counts any more. `wall` returns ms since epoch.

    Raises SystemProblem for a stream that was deleted and created again, unless all of its partitions are set."""
    ids = _identities(plan, system, settings, stored, offsets)
    until = wall() + (system.admin().metadata_ms if isinstance(system, ProducingSystem) else 0)
    changes, changed = [], dict[str, Checkpoint]()
    for task, partitions in _partitions_of(plan, stored):
        wanted = {
            name: offsets[task][partition]
            for name, partition in partitions.items()
            if partition in offsets.get(task, {})
        }
        for name, offset in wanted.items():
            stream, number = partitions[name]
            _refuse_table_without_rows(plan, stored, task, stream)
            before = max((stored[one].offsets.get(name, -1) for one in _holders(stored, task, name)), default=None)
            changes.append(OffsetChange(task=task, stream=stream, partition=number, before=before, offset=offset))
            # Another one of the same number is of a stage that had another name: the larger offset would count.
            for one in dict.fromkeys([task, *_holders(stored, task, name)]):
                last = changed.get(one) or stored.get(one) or _new(plan, task)
                anew = structs.replace(last, journals=ends_of_journals(plan, system, one, last))
                changed[one] = _set(with_growths(anew, [*partitions], until), name, stream, offset, ids.get(stream))
    return changes, changed


def write_offsets(plan: Plan, system: System, settings: Settings, changed: Checkpoints) -> None:
    """Make these the checkpoints of their tasks. No task of the pipeline may run, and the last commits of stores must
    be published. A crash leaves all offsets as they were, or all set."""
    if isinstance(system, ProducingSystem):
        write_checkpoints(system, plan.name, changed)
        return
    with ExitStack() as stack:
        stores = [
            (task, stack.enter_context(closing(RocksStore(folder))))
            for task in changed
            for folder in task_folders(plan, system, settings, task)
        ]
        # The store has a checkpoint of its own. This one counts in it once it is that of the log.
        durable = cast("PublishingSystem", system).producer().durable
        for task, store in stores:
            store.write([(META, MOVED, encode(changed[task]))])
            if durable:
                store.sync()
        write_checkpoints(system, plan.name, changed)
        for task, store in stores:
            finish_move(store, changed[task])


def notes_on(plan: Plan, changes: Sequence[OffsetChange]) -> Iterator[str]:
    """What a user has to know of offsets that are set: which operators get messages twice, and which miss some."""
    pipeline = plan.pipeline
    keeping = {store.operator for store in plan.stores}
    for stream in dict.fromkeys(change.stream for change in changes):
        mine = [change for change in changes if change.stream == stream]
        sources = [source.id for source in pipeline.sources if source.stream == stream]
        after = set().union(*(nx.descendants(pipeline.graph, id) for id in sources)) if sources else set()
        states = [operator.label for operator in pipeline.operators if operator.id in after & keeping]
        back: dict[int, int] = {}  # key buckets of a partition read the same messages
        for change in mine:
            back[change.partition] = max(back.get(change.partition, 0), (change.before or 0) - change.offset)
        again = sum(back.values())
        if again:
            twice = f", and the state of {', '.join(states)} takes them in again" if states else ""
            yield f"up to {plural(again, 'message')} of {stream} are processed again: outputs are written again{twice}"
            if states:
                yield "state and watermarks stay as they are; to begin without them: fluvial reset --to"


def _partitions_of(plan: Plan, stored: Checkpoints) -> Iterator[tuple[str, dict[str, StreamPartition]]]:
    """The partitions that each task reads, by the name of the input. Where tasks have checkpoints, they are split as
    these say."""
    before = plan_before(plan, stored) if stored else plan
    for stage in before.stages:
        for task in tasks_in(stage):
            yield task.name, partitions_read(before, stage.id, task.number)


def _holders(stored: Checkpoints, task: str, name: str) -> list[str]:
    """The tasks of the same number that have an offset of an input."""
    return [one for one, last in stored.items() if number_of(one) == number_of(task) and name in last.offsets]


def _new(plan: Plan, task: str) -> Checkpoint:
    id = TaskId.parse(task)
    return Checkpoint(input=only_input(plan, id.stage, id.number))


def _set(checkpoint: Checkpoint, name: str, stream: str, offset: int, id: str | None) -> Checkpoint:
    """A checkpoint with another offset of an input, and with the `id` of its stream if it has one."""
    tables, table = checkpoint.tables or {}, table_id(stream)
    if table in tables and name == stream:
        tables = {**tables, table: offset}
    return structs.replace(
        checkpoint.within(""),
        offsets={**checkpoint.offsets, name: offset},
        tables=tables if checkpoint.tables is not None else None,
        identities={**checkpoint.identities, **({stream: id} if id else {})},
    )


def _identities(
    plan: Plan, system: System, settings: Settings, stored: Checkpoints, offsets: OffsetsByTask
) -> dict[str, str]:
    """The ids of the streams whose offsets are set."""
    partitions = {partition for wanted in offsets.values() for partition in wanted}
    streams = sorted({stream for stream, _ in partitions})
    ids = {stream: one.id for stream, one in descriptions_of(system, streams).items()}
    for stream in streams:
        known = {one.identities[stream] for one in stored.values() if stream in one.identities}
        whole = all((stream, number) in partitions for number in range(plan.stream(stream).partitions))
        if not whole and known - {ids.get(stream)} and ids.get(stream) != "":
            raise recreated(plan, stream, system.url, reset_command(plan, system, settings))
    return ids


def _refuse_table_without_rows(plan: Plan, stored: Checkpoints, task: str, stream: str) -> None:
    """A table that has read nothing yet reads its stream from the start, whatever a checkpoint says."""
    if stream not in table_streams(plan):
        return
    table = table_id(stream)
    if not any(number_of(one) == number_of(task) and table in (last.tables or {}) for one, last in stored.items()):
        wrong = (
            f"the offset of {stream!r} cannot be set: table {table!r} has no rows in task {task!r} yet, and is read "
        )
        wrong += "from the start of its stream"
        raise PlanError(explain(wrong, "a table that has read its stream", "run the pipeline first, or leave it out"))

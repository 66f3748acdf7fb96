"""`committed_offsets`, `set_offsets`, `export_offsets`, `import_offsets`: operate on the offsets in checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..dsl.errors import PlanError, UnsupportedError, UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, flag, require
from ..dsl.verb_calls import explained_call
from ..planner.plan import Plan
from ..planner.settings import Settings
from .launch import EngineName, engine_plan
from .local.checkpoints.border_compatibility import holds_unread_messages
from .local.checkpoints.checkpoint import Checkpoints, checkpoints_in
from .local.checkpoints.migration import read_before
from .local.coordination.exclusion import begin_anew
from .local.input_offsets import (
    InputOffset,
    OffsetChange,
    OffsetsByTask,
    by_task,
    changes_of,
    input_offsets,
    named_offsets,
    notes_on,
    refuse_without_checkpoints,
    settable,
    write_offsets,
)
from .local.reset_steps import stopped
from .offsets_file import ExportedOffsets, exported, read_offsets_file, write_offsets_file
from .pipeline_reset import existing_system
from .systems.contract import System
from .systems.provisioning import table_streams
from .systems.start_points import StartPoint, check_offset


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """What was set, or would be: the `changes`, and `notes` for the user of what they lead to.

    >>> change = OffsetChange(task="clicks/0", stream="clicks", partition=0, before=120, offset=40)
    >>> SetOffsets((change,)).changes[0].back
    True
    """

    changes: tuple[OffsetChange, ...]
    notes: tuple[str, ...] = ()


@partial(explained_call, error=UsageError)
def committed_offsets(
    pipeline: Pipeline,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
) -> list[InputOffset]:
    """The offset of each task in each partition that it reads, as of its last commit, with the lag in messages and the
    number of the commit. It may run meanwhile.

    `system` and `settings` are those of the run. A pipeline that has never committed has none. Raises UsageError for a
    log that does not exist; UnsupportedError in memory, and for the engine "spark".

    >>> from tempfile import mkdtemp
    >>> from fluvial.runtime import open_system, run
    >>> streams = open_system("log:" + mkdtemp())
    >>> streams.admin().create("clicks", 1)
    >>> pipeline = Pipeline("copies")
    >>> pipeline.stream("clicks", value=str).send_to("copies")
    >>> report = run(pipeline, system=streams, until="end")
    >>> (row,) = committed_offsets(pipeline, system=streams)
    >>> row.task, row.stream, row.partition, row.offset, row.lag
    ('clicks/0', 'clicks', 0, 0, 0)
    """
    plan, streams, _ = _opened(pipeline, engine, system, settings, "fluvial checkpoint show")
    return input_offsets(plan, streams, checkpoints_in(streams, plan.name))


@partial(explained_call, error=UsageError)
def set_offsets(
    pipeline: Pipeline,
    inputs: Mapping[str, StartPoint],
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    dry_run: bool = False,
) -> SetOffsets:
    """Set the offsets from which the next run reads inputs; state, watermarks and timers stay as they are.

    `inputs` has start points by `STREAM`, for all of its partitions, or by `STREAM/PARTITION`: "earliest", "latest", a
    datetime with a time zone, for the first record whose timestamp is not before it, or an offset. Only sources can be
    set. Of a task that is split by key all key buckets are set. A pipeline that has never run begins there.
    With `dry_run` nothing is set. `system` and `settings` are those of the run.

    Messages that are read again are processed again: outputs are written, and state counts them, a second time. Those
    that are skipped are in no output. Windows that have fired do not fire again: what is behind the watermark is late.

    Raises SystemProblem while the pipeline runs; UsageError for a stream that is no input, or an offset that it does
    not have; PlanError for a stream between two stages, or of a table without rows; UnsupportedError in memory, and for
    the engine "spark".

    >>> from tempfile import mkdtemp
    >>> from fluvial.runtime import open_system, run
    >>> streams = open_system("log:" + mkdtemp())
    >>> streams.admin().create("clicks", 1)
    >>> pipeline = Pipeline("copies")
    >>> pipeline.stream("clicks", value=str).send_to("copies")
    >>> [str(change) for change in set_offsets(pipeline, {"clicks": "latest"}, system=streams).changes]
    ['clicks, partition 0, in task clicks/0: to 0']
    """
    wrong, remedy = f"inputs={inputs!r}", "write inputs={'clicks': 'earliest'}"
    require(isinstance(inputs, Mapping) and bool(inputs), UsageError, wrong, "start points by stream", remedy)

    def wanted(plan: Plan, streams: System, settings: Settings, stored: Checkpoints) -> OffsetsByTask:
        default, read = settings.offset_default, read_before(stored)
        return by_task(plan, stored, named_offsets(plan, streams, inputs, settable(plan), default, read))

    return _set(pipeline, engine, system, settings, wanted, dry_run=dry_run, command="fluvial checkpoint set")


@partial(explained_call, error=UsageError)
def export_offsets(
    pipeline: Pipeline,
    file: str | Path,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
) -> tuple[ExportedOffsets, list[str]]:
    """Write the committed offsets of the sources to a file, as JSON. State is not in it.

    Returns what was written, and notes on what the file does not say. Raises PlanError where a task has not committed
    yet; otherwise as `committed_offsets` does.

    >>> from tempfile import mkdtemp
    >>> from fluvial.runtime import open_system, run
    >>> streams = open_system("log:" + mkdtemp())
    >>> streams.admin().create("clicks", 1)
    >>> pipeline = Pipeline("copies")
    >>> pipeline.stream("clicks", value=str).send_to("copies")
    >>> report = run(pipeline, system=streams, until="end")
    >>> export_offsets(pipeline, mkdtemp() + "/offsets.json", system=streams)[0].tasks
    {'clicks/0': {'clicks/0': 0}}
    """
    _check_file(file)
    plan, streams, _ = _opened(pipeline, engine, system, settings, "fluvial checkpoint export")
    stored, portable = checkpoints_in(streams, plan.name), _portable(plan)
    tasks: dict[str, dict[tuple[str, int], int]] = {}
    for row in input_offsets(plan, streams, stored):
        if row.stream in portable:
            tasks.setdefault(row.task, {})[row.stream, row.partition] = row.offset
    _refuse_shape(plan, stored, tasks, f"pipeline {plan.name!r} has not committed", "run it until each task commits")
    record = exported(plan.name, streams.url, tasks)
    write_offsets_file(Path(file), record)
    between = [stream.name for stream in plan.streams if stream.kind == "intermediate"]
    unread = [name for name in between if holds_unread_messages(streams, name, stored)]
    return record, [
        f"{name}, between two stages, has messages that are not read yet, and that an import does not bring: run the "
        "pipeline with --until end first, where it is to go on elsewhere"
        for name in unread
    ]


@partial(explained_call, error=UsageError)
def import_offsets(
    pipeline: Pipeline,
    file: str | Path,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    dry_run: bool = False,
) -> SetOffsets:
    """Set the offsets that `export_offsets` has written to a file, on this system or on another one.

    All that `set_offsets` says holds. Raises UsageError besides, for a file that is not of this pipeline, or has
    offsets that the streams do not have, and PlanError for one of other tasks, as with another elasticity.

    >>> import_offsets(pipeline, "offsets.json", system="kafka://elsewhere:9092", dry_run=True)  # doctest: +SKIP
    """
    _check_file(file)

    def wanted(plan: Plan, streams: System, _: Settings, stored: Checkpoints) -> OffsetsByTask:
        record = read_offsets_file(Path(file))
        if record.pipeline != plan.name:
            wrong = f"{file} has the offsets of pipeline {record.pipeline!r}"
            raise UsageError(explain(wrong, f"those of {plan.name!r}", "name the file of this pipeline"))
        offsets = record.by_task
        _refuse_shape(plan, stored, offsets, f"{file} is of other tasks", "use the settings of the export")
        for partition, offset in {
            (partition, at) for partitions in offsets.values() for partition, at in partitions.items()
        }:
            check_offset(streams, partition, offset)
        return offsets

    return _set(pipeline, engine, system, settings, wanted, dry_run=dry_run, command="fluvial checkpoint import")


def _check_file(file: object) -> None:
    good = isinstance(file, str | Path) and str(file) not in ("", ".")
    require(good, UsageError, f"file={file!r}", "the name of a file", 'write file="offsets.json"')


def _set(
    pipeline: Pipeline,
    engine: EngineName,
    system: str | System,
    settings: Settings | None,
    wanted: Callable[[Plan, System, Settings, Checkpoints], OffsetsByTask],
    *,
    dry_run: bool,
    command: str,
) -> SetOffsets:
    flag(f"{command}: dry_run", dry_run)
    plan, streams, used = _opened(pipeline, engine, system, settings, command)
    with stopped(plan, streams, used, dry_run=dry_run):
        stored = checkpoints_in(streams, plan.name)
        changes, changed = changes_of(plan, streams, used, stored, wanted(plan, streams, used, stored))
        if changed and not dry_run:
            begin_anew(plan.name, streams)
            write_offsets(plan, streams, used, changed)
    return SetOffsets(tuple(changes), tuple(notes_on(plan, changes)))


def _opened(
    pipeline: Pipeline, engine: str, system: str | System, settings: Settings | None, command: str
) -> tuple[Plan, System, Settings]:
    """The plan of a pipeline on its system, with the settings of the run."""
    if engine == "spark":
        remedy = (
            'give the pipeline another name and begin with offset_default, or start over with reset(engine="spark")'
        )
        wrong = f"{command} with engine 'spark': Spark's checkpoint has offsets and state as one"
        raise UnsupportedError(explain(wrong, "the local engine", remedy))
    require(engine == "local", UsageError, f"engine={engine!r}", '"local" or "spark"')
    streams, settings = existing_system(system), Settings() if settings is None else settings
    plan = engine_plan(pipeline, engine, streams, streams.admin().streams(), settings)
    refuse_without_checkpoints(plan, streams, settings)
    return plan, streams, settings


def _portable(plan: Plan) -> set[str]:
    """The streams whose offsets are exported: tables are read from the start of theirs where they have no rows."""
    return settable(plan).keys() - table_streams(plan)


def _refuse_shape(plan: Plan, stored: Checkpoints, tasks: OffsetsByTask, wrong: str, remedy: str) -> None:
    """Raise PlanError unless these are the tasks of the plan, each with its partitions."""
    counts = settable(plan)
    partitions = {(stream, number): 0 for stream in _portable(plan) for number in range(counts[stream])}
    expected = by_task(plan, stored, partitions)
    for task in sorted(expected.keys() | tasks.keys()):
        has, reads = set(tasks.get(task, ())), set(expected.get(task, ()))
        if has != reads:
            shown = ", ".join(f"{stream}/{number}" for stream, number in sorted(has ^ reads))
            which = f"{wrong}: task {task!r} {'has no offset in' if reads - has else 'does not read'} {shown}"
            raise PlanError(explain(which, f"the tasks {', '.join(expected)}", remedy, plan.pipeline.origin))

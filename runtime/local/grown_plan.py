"""The plan of a pipeline some of whose sources have got more partitions since it began: its tasks stay as they are."""

from collections.abc import Iterator, Mapping, Sequence

from ...dsl.pipeline import Pipeline
from ...planner.grouping import BY_STREAM_PARTITION, grouping_of, not_broadcast
from ...planner.growths import fits, grown
from ...planner.plan import Plan
from ...planner.planner import plan_on
from ...planner.settings import Settings
from ...planner.stages import cut, inputs_of
from ...planner.stream_names import coordinator, growth_of
from ...planner.task_assignment import TaskId, numbers_of, stages_with
from ..preflight.input_streams import unfit_growth
from ..systems.contract import ProducingSystem, System
from .checkpoints.checkpoint import Checkpoints, checkpoints_in
from .coordination.coordinator_stream import Coordinator

_Counts = Mapping[str, int]
"""Partition counts of streams."""


def plan_with_growth(
    pipeline: Pipeline,
    system: ProducingSystem,
    existing: _Counts,
    settings: Settings,
    reads: _Counts | None = None,
    *,
    refuses: bool = True,
) -> Plan:
    """The plan of a pipeline on a system whose `existing` streams have these partition counts.

    `reads` are the counts that the run has begun with, by source. Raises PlanError for one that has grown by what tasks
    with state cannot follow; or unless it `refuses` that, plans the partitions that its tasks have read."""
    if not isinstance(pipeline, Pipeline):
        return plan_on(pipeline, existing, settings)
    stored = checkpoints_in(system, pipeline.name)
    began = dict(_began_with(pipeline, system, existing, stored, settings))
    if not stored:
        began = {stream: number for stream, number in (reads or {}).items() if number < existing.get(stream, 0)}
    plan = plan_on(pipeline, {**existing, **began}, settings)
    counts = {}
    for stream, spread in began.items():
        known = min(_read_by_tasks(stream, spread, stored), existing[stream])
        before = grown(plan, {stream: known})
        fit = fits(before, stream, existing[stream])
        if refuses and not fit:
            raise unfit_growth(before, stream, known, existing[stream])
        counts[stream] = existing[stream] if fit else known
    return grown(plan, counts)


def _began_with(
    pipeline: Pipeline, system: System, existing: _Counts, stored: Checkpoints, settings: Settings
) -> Iterator[tuple[str, int]]:
    """The sources that had fewer partitions as the pipeline began, and how many each had.

    Checkpoints tell it, by the tasks that have read a source. Where not all tasks have committed yet, as when
    containers start, those of the assignment count."""
    tasks = {name: TaskId.parse(name) for name in stored}
    read: dict[str, int] = {}
    for name, checkpoint in stored.items():
        if checkpoint.input is not None:
            read[checkpoint.input.stream] = checkpoint.input.spread
            continue
        for stream in {growth_of(input)[0] for input in checkpoint.offsets}:
            read[stream] = max(read.get(stream, 0), tasks[name].number + 1)
    sources = [source.stream for source in pipeline.sources if source.stream in existing]
    if not stored or all(existing[stream] == read.get(stream) for stream in sources):
        return
    assigned = _assigned_numbers(pipeline, system)
    for stage in cut(pipeline):
        inputs = inputs_of(pipeline, stage)
        numbers = assigned.get(inputs[0])
        committed = {task.number for task in tasks.values() if task.stage == inputs[0]}
        if grouping_of(pipeline, stage, settings) == BY_STREAM_PARTITION:
            known = _with_rest(read, not_broadcast(pipeline, inputs), numbers)
            began_with = {name: known[name] for name in inputs if name in sources and name in known}
            yield from ((name, count) for name, count in began_with.items() if count < existing[name])
            continue
        for stream in (one for one in inputs if one in sources):
            began = read.get(stream) if numbers is None else read.get(stream, numbers)
            if numbers is not None and len(committed) < numbers:
                began = max(read.get(stream, 0), min(numbers, existing[stream]))
            if began is not None and began < existing[stream]:
                yield stream, began


def _with_rest(known: _Counts, streams: Sequence[str], numbers: int | None) -> _Counts:
    """The partitions over which streams are spread, each over tasks of its own: those that are `known`, and of a single
    one that is not, of which no task has committed, the rest of the numbers that the tasks of the stage have."""
    unknown = [name for name in streams if name not in known]
    rest = (numbers or 0) - sum(known[name] for name in streams if name in known)
    return {**known, unknown[0]: rest} if len(unknown) == 1 and rest > 0 else known


def _assigned_numbers(pipeline: Pipeline, system: System) -> _Counts:
    """How many numbers the tasks of each stage have, as the last assignment says."""
    if system.admin().partitions(coordinator(pipeline.name)) is None:
        return {}
    assignment = Coordinator(system, pipeline.name).read()[0].assignment
    return {} if assignment is None else numbers_of(stages_with(assignment.tasks))


def _read_by_tasks(stream: str, spread: int, stored: Checkpoints) -> int:
    """How many partitions of a source tasks have read."""
    known = (map(growth_of, checkpoint.offsets) for checkpoint in stored.values())
    return spread * (1 + max((growth for of in known for name, growth in of if name == stream), default=0))

"""The plan of a pipeline some of whose sources have got more partitions since it began: its tasks stay as they are."""

from collections.abc import Iterator, Mapping

from ...dsl.pipeline import Pipeline
from ...planner.grouping import BY_STREAM_PARTITION, grouping_of
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
    pipeline: Pipeline, system: System, existing: _Counts, settings: Settings, reads: _Counts | None = None
) -> Plan:
    """The plan of a pipeline on a system whose `existing` streams have these partition counts.

    `reads` are the counts that the run has begun with, by source. Raises PlanError for one that has grown by what tasks
    with state cannot follow. On other systems nothing grows."""
    if not (isinstance(system, ProducingSystem) and isinstance(pipeline, Pipeline)):
        return plan_on(pipeline, existing, settings)
    stored = checkpoints_in(system, pipeline.name)
    began = dict(_began_with(pipeline, system, existing, stored, settings))
    if not stored:
        began = {stream: number for stream, number in (reads or {}).items() if number < existing.get(stream, 0)}
    plan = plan_on(pipeline, {**existing, **began}, settings)
    counts = {}
    for stream, spread in began.items():
        known = min(_read_by_tasks(stream, spread, stored), existing[stream])
        counts[stream] = existing[stream]
        if not fits(grown(plan, {stream: known}), stream, existing[stream]):
            raise unfit_growth(grown(plan, {stream: known}), stream, known, existing[stream])
    return grown(plan, counts)


def _began_with(
    pipeline: Pipeline, system: System, existing: _Counts, stored: Checkpoints, settings: Settings
) -> Iterator[tuple[str, int]]:
    """The sources that had fewer partitions as the pipeline began, and how many each had.

    Checkpoints tell it, by the tasks that have read a source, which follow each other. Where not all tasks have
    committed yet, as when containers start, those of the assignment count."""
    tasks = {name: TaskId.parse(name) for name in stored}
    by_stream: dict[str, list[int]] = {}
    for name, checkpoint in stored.items():
        for stream in {growth_of(input)[0] for input in checkpoint.offsets}:
            by_stream.setdefault(stream, []).append(tasks[name].number)
    read = {stream: max(numbers) + 1 for stream, numbers in by_stream.items()}
    sources = [source.stream for source in pipeline.sources if source.stream in existing]
    if not stored or all(existing[stream] == read.get(stream) for stream in sources):
        return
    assigned = _assigned_numbers(pipeline, system)
    for stage in cut(pipeline):
        inputs = inputs_of(pipeline, stage)
        numbers = assigned.get(inputs[0])
        committed = {task.number for task in tasks.values() if task.stage == inputs[0]}
        if grouping_of(pipeline, stage, settings) == BY_STREAM_PARTITION:
            # Of tasks that have not committed nobody knows which stream they read.
            if numbers is None or len(committed) == numbers:
                known = {stream: by_stream[stream] for stream in inputs if stream in by_stream and stream in sources}
                began_with = {stream: max(these) - min(these) + 1 for stream, these in known.items()}
                yield from ((stream, count) for stream, count in began_with.items() if count < existing[stream])
            continue
        for stream in (one for one in inputs if one in sources):
            began = read.get(stream) if numbers is None else read.get(stream, numbers)
            if numbers is not None and len(committed) < numbers:
                began = max(read.get(stream, 0), min(numbers, existing[stream]))
            if began is not None and began < existing[stream]:
                yield stream, began


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

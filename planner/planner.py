"""From a pipeline to a plan: check the graph, follow the types, cut it into stages, size the streams."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ..dsl import operators as ops
from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.verb_calls import explained_call
from . import validation
from .annotation_checks import check_annotations
from .commits import check_async_commit
from .flow import Flow, known_name
from .grouping import check_grouping, grouping_of, not_broadcast, tasks_for
from .journals import check_journals
from .kinds import PLANNER_KINDS, OperatorState
from .own_streams import check_own_streams
from .partial_aggregates import combining_reader
from .partition_counts import counts
from .plan import Plan, PlannedOperator, PlannedStage, PlannedStore, PlannedStream, StreamKind
from .settings import Settings
from .stages import cut, inputs_of, name_of
from .state_schema import PARTITIONS, StateSchema
from .stream_names import changelog, dead_letters
from .type_inference import flows, written_flow
from .type_schema import type_schema
from .validation import written_by


@partial(explained_call, error=UsageError)
def plan(pipeline: Pipeline, *, partitions: Mapping[str, int] | None = None, settings: Settings | None = None) -> Plan:
    """Turn a pipeline into stages joined by intermediate streams.

    `partitions` are the counts of streams of the pipeline; a source that is not among them is taken to have one.
    Raises `PlanError` where the pipeline has no plan; the message names the user's line. A wrong argument is a
    `UsageError`.

    >>> from fluvial.dsl import Pipeline
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).flat_map(str.split).send_to("out")
    >>> [stage.operators for stage in plan(words).stages]
    [('stream-1', 'flat_map-2', 'send_to-3')]
    """
    partitions = {} if partitions is None else partitions
    planned = plan_on(pipeline, partitions, settings)
    validation.check_partitions(partitions, [stream.name for stream in planned.streams])
    return planned


def plan_on(pipeline: Pipeline, partitions: Mapping[str, int], settings: Settings | None = None) -> Plan:
    """The plan for a system whose streams, others than the pipeline's among them, have these partition counts."""
    settings = Settings() if settings is None else settings
    validation.check_arguments(pipeline, partitions, settings)
    known = flows(pipeline)
    # From the shape of the whole to single operators: of several mistakes, the first one often explains the others.
    validation.check_not_empty(pipeline)
    validation.check_ends(pipeline)
    validation.check_streams(pipeline)
    validation.check_sinks(pipeline)
    check_own_streams(pipeline)
    validation.check_formats(pipeline, known)
    validation.check_kinds(pipeline, known)
    check_annotations(pipeline, known)
    validation.check_tables(pipeline)
    check_journals(pipeline, known)
    members = cut(pipeline)
    ids = [inputs_of(pipeline, stage)[0] for stage in members]
    validation.check_stage_names(pipeline, ids, "group_by", settings.group_by)
    check_grouping(pipeline, members, settings)
    sizes = counts(pipeline, partitions, settings)
    stages = tuple(_stage(pipeline, stage, sizes, settings) for stage in members)
    validation.check_stage_names(pipeline, ids, "elasticity", settings.elasticity)
    members_of = {stage.id: stage.operators for stage in stages}
    validation.check_elastic(pipeline, members_of, settings)
    check_async_commit(pipeline, members_of, settings)
    operators = _operators(pipeline, stages, known)
    return Plan(
        pipeline,
        operators,
        stages,
        _streams(pipeline, stages, known, sizes, settings),
        tuple(_stores(pipeline, stages, known)),
    )


def _stage(pipeline: Pipeline, stage: list[ops.Operator], sizes: Mapping[str, int], settings: Settings) -> PlannedStage:
    inputs = tuple(inputs_of(pipeline, stage))
    outputs = dict.fromkeys(name for operator in stage for name in written_by(pipeline, operator))
    grouping = grouping_of(pipeline, stage, settings)
    return PlannedStage(
        id=inputs[0],
        name=name_of(pipeline, inputs),
        operators=tuple(operator.id for operator in stage),
        inputs=inputs,
        outputs=tuple(outputs),
        tasks=tasks_for(grouping, [sizes[name] for name in not_broadcast(pipeline, inputs) or inputs]),
        elasticity=_elasticity(pipeline, inputs, settings),
        group_by=grouping,
    )


def _elasticity(pipeline: Pipeline, inputs: tuple[str, ...], settings: Settings) -> int:
    """The elasticity of a stage. Each task processes all messages of a broadcast, so there is nothing to split where a
    stage has no other input."""
    return settings.elasticity_of(inputs[0]) if not_broadcast(pipeline, inputs) else 1


def _operators(
    pipeline: Pipeline, stages: tuple[PlannedStage, ...], known: Mapping[str, Flow]
) -> tuple[PlannedOperator, ...]:
    home = {id: stage.id for stage in stages for id in stage.operators}
    return tuple(
        PlannedOperator(
            id=operator.id,
            kind=operator.kind,
            role=operator.role,
            stage=home[operator.id],
            inputs=operator.inputs,
            label=operator.label,
            file=operator.origin.file,
            line=operator.origin.line,
            key=known_name(known[operator.id].key),
            value=known_name(known[operator.id].value),
            reads=operator.reads,
            writes=written_by(pipeline, operator),
            fills=operator.fills,
            details=PLANNER_KINDS[operator].options(operator)
            | _combining(pipeline, operator, known[operator.id].value),
        )
        for operator in pipeline.operators
    )


def _combining(pipeline: Pipeline, operator: ops.Operator, value: Any) -> dict[str, str]:
    """Where a border aggregates messages: for which operator."""
    reader = combining_reader(pipeline, operator.id, value) if operator.is_border else None
    return {} if reader is None else {"combines for": reader.id}


def _streams(
    pipeline: Pipeline,
    stages: tuple[PlannedStage, ...],
    known: Mapping[str, Flow],
    sizes: Mapping[str, int],
    settings: Settings,
) -> tuple[PlannedStream, ...]:
    tasks = {id: stage.tasks for stage in stages for id in stage.operators}
    streams: dict[str, PlannedStream] = {}
    for operator in pipeline.operators:
        if operator.reads is not None:
            streams[operator.reads] = _source(operator, operator.reads, known[operator.id], sizes)
        for name in written_by(pipeline, operator):
            before = streams.get(name)
            # Several stages may write a stream; the one with most tasks decides.
            least = max(tasks[operator.id], before.partitions if before else 1)
            count = sizes.get(name) or settings.output_partitions or least
            streams[name] = _written(pipeline, operator, name, known, count, before)
    if pipeline.on_error.action == "dead_letter":
        name = dead_letters(pipeline.name)
        # Few messages fail, so that one partition is enough; a stream that exists keeps its count.
        streams[name] = PlannedStream(name=name, kind="dead-letters", partitions=sizes.get(name, 1), value="bytes")
    return tuple(streams.values())


def _source(operator: ops.Operator, name: str, flow: Flow, sizes: Mapping[str, int]) -> PlannedStream:
    return PlannedStream(
        name=name,
        kind="source",
        partitions=sizes[name],
        key=known_name(flow.key),
        value=known_name(flow.value),
        read_by=(operator.id,),
    )


def _written(
    pipeline: Pipeline,
    operator: ops.Operator,
    name: str,
    known: Mapping[str, Flow],
    partitions: int,
    before: PlannedStream | None,
) -> PlannedStream:
    """A stream that an operator writes, which operators `before` it may write too."""
    writers = (*(before.written_by if before else ()), operator.id)
    written = [written_flow(pipeline.operator(writer), known) for writer in writers]
    keys = dict.fromkeys(known_name(flow.key) for flow in written)
    values = dict.fromkeys(known_name(flow.value) or "json" for flow in written)
    readers = tuple(reader.id for reader in pipeline.operators if operator.id in reader.inputs)
    return PlannedStream(
        name=name,
        kind=_kind(operator),
        partitions=partitions,
        # One writer without keys is enough for a reader to meet messages that have none.
        key=None if None in keys else " | ".join(filter(None, keys)),
        value=" | ".join(values),
        written_by=writers,
        read_by=readers if operator.is_border else (),
    )


def _kind(operator: ops.Operator) -> StreamKind:
    if operator.is_border:
        return "intermediate"
    # What an operator writes that also passes messages on is what it could not take in.
    return "output" if operator.role == "terminal" else "late"


def _stores(pipeline: Pipeline, stages: tuple[PlannedStage, ...], known: Mapping[str, Flow]) -> Iterator[PlannedStore]:
    home = {id: stage for stage in stages for id in stage.operators}
    for operator in pipeline.operators:
        state = PLANNER_KINDS[operator].state
        if state is not None:
            yield _store(pipeline, operator, state, home[operator.id], known)


def _store(
    pipeline: Pipeline, operator: ops.Operator, state: OperatorState, stage: PlannedStage, known: Mapping[str, Flow]
) -> PlannedStore:
    inputs = [known[source] for source in operator.inputs]
    facts, types = state.meaning(pipeline, operator, inputs)
    schema = StateSchema(
        kind=operator.kind,
        facts={**facts, PARTITIONS: str(stage.tasks)},
        types={name: type_schema(type_) for name, type_ in types.items()},
    )
    return PlannedStore(
        operator=operator.id,
        stage=stage.id,
        changelog=changelog(pipeline.name, operator.id),
        key=known_name(known[operator.id].key) or "bytes",
        value=state.shown(operator, inputs),
        schema=schema,
    )

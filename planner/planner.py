"""From a pipeline to a plan: check the graph, follow the types, cut it into stages, size the streams."""

from collections.abc import Callable, Mapping
from typing import Any

from ..dsl import operators as ops
from ..dsl.annotations import returned
from ..dsl.labels import label
from ..dsl.pipeline import Pipeline
from ..dsl.processing import states_of
from . import checks
from .labels import details, state_text
from .names import changelog, dead_letters
from .own_streams import check_own_streams
from .partitions import counts
from .plan import Plan, PlannedOperator, PlannedStage, PlannedStore, PlannedStream, StreamKind
from .settings import Settings
from .stages import cut, inputs_of, name_of
from .state_schema import state_schema
from .tables import check_tables
from .types import Flow, flows, plain, shown, without_none


def plan(pipeline: Pipeline, *, partitions: Mapping[str, int] | None = None, settings: Settings | None = None) -> Plan:
    """Turn a pipeline into stages joined by intermediate streams.

    `partitions` are the counts of the streams that exist; a source that is not among them is taken to have one.
    Raises `PlanError` where the pipeline has no plan; the message names the user's line. A wrong argument is a
    `UsageError`.

    >>> from fluvial.dsl import Pipeline
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).flat_map(str.split).send_to("out")
    >>> [stage.operators for stage in plan(words).stages]
    [('stream-1', 'flat_map-2', 'send_to-3')]
    """
    partitions = {} if partitions is None else partitions
    settings = Settings() if settings is None else settings
    checks.check_arguments(pipeline, partitions, settings)
    known = flows(pipeline)
    checks.check_not_empty(pipeline)
    checks.check_ends(pipeline)
    checks.check_streams(pipeline)
    check_own_streams(pipeline)
    checks.check_types(pipeline, known)
    check_tables(pipeline, known)
    sizes = counts(pipeline, partitions, settings)
    members = cut(pipeline)
    stages = tuple(_stage(pipeline, stage, sizes) for stage in members)
    operators = _operators(pipeline, stages, known)
    return Plan(
        pipeline,
        operators,
        stages,
        _streams(pipeline, stages, known, sizes, settings),
        _stores(pipeline, stages, known),
    )


def _stage(pipeline: Pipeline, stage: list[ops.Operator], sizes: Mapping[str, int]) -> PlannedStage:
    inputs = tuple(inputs_of(pipeline, stage))
    outputs = dict.fromkeys(name for operator in stage for name in checks.written_by(pipeline, operator))
    return PlannedStage(
        id=inputs[0],
        name=name_of(pipeline, inputs),
        operators=tuple(operator.id for operator in stage),
        inputs=inputs,
        outputs=tuple(outputs),
        tasks=max(sizes[name] for name in inputs),
    )


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
            label=label(operator),
            file=operator.origin.file,
            line=operator.origin.line,
            key=shown(known[operator.id].key),
            value=shown(known[operator.id].value),
            reads=operator.stream if isinstance(operator, ops.Source) else None,
            writes=checks.written_by(pipeline, operator),
            fills=operator.table if isinstance(operator, ops.PutTo) else None,
            details=details(operator),
        )
        for operator in pipeline.operators
    )


def _kind(operator: ops.Operator) -> StreamKind:
    if isinstance(operator, ops.Border):
        return "intermediate"
    return "late" if isinstance(operator, ops.WindowBy) else "output"


def _streams(
    pipeline: Pipeline,
    stages: tuple[PlannedStage, ...],
    known: Mapping[str, Flow],
    sizes: Mapping[str, int],
    settings: Settings,
) -> tuple[PlannedStream, ...]:
    tasks = {id: stage.tasks for stage in stages for id in stage.operators}
    readers: dict[str, list[str]] = {}
    for operator in pipeline.operators:
        for source in operator.inputs:
            readers.setdefault(source, []).append(operator.id)
    found: dict[str, PlannedStream] = {}
    for operator in pipeline.operators:
        if isinstance(operator, ops.Source):
            found[operator.stream] = PlannedStream(
                name=operator.stream,
                kind="source",
                partitions=sizes[operator.stream],
                key=shown(operator.key),
                value=shown(operator.value),
                read_by=(operator.id,),
            )
        for name in checks.written_by(pipeline, operator):
            flow = known[operator.inputs[0]] if isinstance(operator, ops.WindowBy) else known[operator.id]
            value = operator.value if isinstance(operator, ops.SendTo) and operator.value is not None else flow.value
            other = found.get(name)
            found[name] = PlannedStream(
                name=name,
                kind=_kind(operator),
                partitions=sizes.get(name)
                or settings.output_partitions
                or max(tasks[operator.id], other.partitions if other else 1),
                key=shown(flow.key),
                value=shown(value) or "json",
                written_by=(*(other.written_by if other else ()), operator.id),
                read_by=tuple(readers.get(operator.id, ())) if isinstance(operator, ops.Border) else (),
            )
    if pipeline.on_error.action == "dead_letter":
        name = dead_letters(pipeline.name)
        found[name] = PlannedStream(name=name, kind="dead-letters", partitions=sizes.get(name, 1), value="bytes")
    return tuple(found.values())


def _stores(
    pipeline: Pipeline, stages: tuple[PlannedStage, ...], known: Mapping[str, Flow]
) -> tuple[PlannedStore, ...]:
    home = {id: stage for stage in stages for id in stage.operators}
    return tuple(
        _store(pipeline, operator, home[operator.id], known)
        for operator in pipeline.operators
        if operator.role == "both"
    )


def _store(pipeline: Pipeline, operator: ops.Operator, stage: PlannedStage, known: Mapping[str, Flow]) -> PlannedStore:
    inputs = [known[source] for source in operator.inputs]
    return PlannedStore(
        operator=operator.id,
        stage=stage.id,
        changelog=changelog(pipeline.name, operator.id),
        key=shown(known[operator.id].key) or "bytes",
        value=_KEPT[type(operator)](operator, inputs),
        schema=state_schema(pipeline, operator, inputs, stage.tasks),
    )


def _states(operator: ops.Process) -> str:
    found = states_of(operator.processor).items()
    # How long entries are kept may change; that they say when they were written may not.
    return ", ".join(f"{name}: {state_text(state)}{' with ttl' if state.ttl else ''}" for name, state in found)


_KEPT: Mapping[type[ops.Operator], Callable[[Any, list[Flow]], str]] = {
    ops.WindowBy: lambda op, inputs: shown(op.aggregate.state(plain(inputs[0].value))) or "json",
    ops.JoinStreams: lambda _, inputs: " and ".join(shown(flow.value) or "json" for flow in inputs),
    ops.TableOf: lambda op, _: shown(op.value) or "json",
    ops.JoinTables: lambda op, _: shown(without_none(returned(op.fn))) or "json",
    ops.Process: lambda op, _: _states(op) or "timers",
}
"""The type of what an operator keeps, as text."""

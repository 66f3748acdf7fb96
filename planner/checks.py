"""Checks of a whole pipeline, before it is cut: every path ends, and every value that must be decoded has a type."""

from collections.abc import Mapping

import msgspec

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN
from ..dsl.checks import explain, require
from ..dsl.errors import PlanError, UsageError
from ..dsl.labels import label
from ..dsl.pipeline import Pipeline
from .names import intermediate
from .settings import Settings
from .types import Flow, plain, shown


def check_arguments(pipeline: object, partitions: object, settings: object) -> None:
    """Refuse what is no pipeline, no counts of partitions, or no settings."""
    wrong, remedy = f"a plan of {pipeline!r}", "pass the Pipeline, not one of its streams"
    require(isinstance(pipeline, Pipeline), UsageError, wrong, "a Pipeline", remedy)
    good = isinstance(partitions, Mapping) and all(type(count) is int and count >= 1 for count in partitions.values())
    wrong = f"partitions={partitions!r}"
    require(good, UsageError, wrong, "numbers of partitions, 1 or more, by stream", 'write partitions={"clicks": 4}')
    wrong = f"settings={settings!r}"
    require(isinstance(settings, Settings), UsageError, wrong, "Settings", "write Settings(guarantee=...)")


def check_not_empty(pipeline: Pipeline) -> None:
    """Refuse a pipeline that says nothing."""
    if not pipeline.operators:
        wrong = f"pipeline {pipeline.name!r} has no operators"
        raise PlanError(explain(wrong, "a stream and a send_to", "start with pipeline.stream(...)", pipeline.origin))


def check_ends(pipeline: Pipeline) -> None:
    """Refuse a path that ends in no terminal operator, and an intermediate stream that nobody reads."""
    read = {source for operator in pipeline.operators for source in operator.inputs}
    ends = ops.SendTo | ops.SinkTo | ops.PutTo | ops.PutRemote
    for operator in pipeline.operators:
        # That a table is of use to somebody is looked at with all else of tables.
        if operator.id in read or isinstance(operator, ends | ops.TableOf | ops.JoinTables):
            continue
        if isinstance(operator, ops.Branch) and any(other in read for other in _branches(pipeline, operator)):
            continue  # what nobody wants of a split is left out
        wrong = f"nothing reads what {label(operator)} emits"
        raise PlanError(
            explain(wrong, "a terminal operator", "end it with .send_to(...) or .sink(...)", operator.origin)
        )


def _branches(pipeline: Pipeline, branch: ops.Branch) -> list[str]:
    return [one.id for one in pipeline.operators if isinstance(one, ops.Branch) and one.inputs == branch.inputs]


def check_streams(pipeline: Pipeline) -> None:
    """Refuse a stream that is read and written by the same pipeline, or written under two meanings."""
    sources = {op.stream: op for op in pipeline.operators if isinstance(op, ops.Source)}
    written: dict[str, ops.Operator] = {}
    for operator in pipeline.operators:
        for name in written_by(pipeline, operator):
            if name in sources:
                wrong = (
                    f"{operator.kind} writes the stream {name!r}, which the pipeline reads at {sources[name].origin}"
                )
                remedy = "write another stream, or hand messages on with partition_by"
                raise PlanError(explain(wrong, "streams that are read or written", remedy, operator.origin))
            other = written.setdefault(name, operator)
            if other is not operator and isinstance(operator, ops.Border) != isinstance(other, ops.Border):
                wrong = f"the stream {name!r} is also an intermediate stream of {other.kind} at {other.origin}"
                raise PlanError(explain(wrong, "a name of its own", "rename one of the two", operator.origin))


def check_types(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse a border or a store whose values nobody could decode."""
    for operator in pipeline.operators:
        if isinstance(operator, ops.Border) and flows[operator.id].value is UNKNOWN:
            wrong = f"{operator.kind} {operator.id!r}: the type of its values is not known"
            remedy = "pass value=YourType, or annotate what the last map before it returns"
            raise PlanError(explain(wrong, "a value type at the border", remedy, operator.origin))
        if isinstance(operator, ops.WindowBy):
            _check_state(operator, flows[operator.inputs[0]])
        if isinstance(operator, ops.Process) and flows[operator.inputs[0]].key is None:
            wrong = f"process {operator.id!r} on messages without one key type"
            remedy = "call .partition_by(...) before .process"
            raise PlanError(explain(wrong, "a keyed stream", remedy, operator.origin))
        if isinstance(operator, ops.JoinStreams):
            check_keys(operator, flows, "streams")
            _check_sides(operator, *(flows[source] for source in operator.inputs))


def _check_state(operator: ops.WindowBy, flow: Flow) -> None:
    if flow.key is None:
        wrong = f"window {operator.id!r} on messages without one key type"
        raise PlanError(explain(wrong, "a keyed stream", "call .partition_by(...) before .window", operator.origin))
    state = operator.aggregate.state(plain(flow.value))
    if state is UNKNOWN:
        wrong = f"window {operator.id!r}: {operator.aggregate.name}() keeps values whose type is not known"
        remedy = "annotate what the last map before it returns, or use aggregate(..., type=...)"
        raise PlanError(explain(wrong, "a type to decode kept values with", remedy, operator.origin))
    try:
        msgspec.msgpack.Decoder(state)
    except (TypeError, NotImplementedError) as error:
        wrong = f"window {operator.id!r}: its accumulator cannot be kept: {error}"
        raise PlanError(
            explain(wrong, "a type that msgspec can decode", "pass type= to aggregate", operator.origin)
        ) from None


def check_keys(operator: ops.Operator, flows: Mapping[str, Flow], what: str) -> None:
    """Refuse a join of `what` whose keys are of different types, so that equal ones would not meet."""
    left, right = (flows[source] for source in operator.inputs)
    if left.key is None or left.key != right.key:
        found = f"keys of type {shown(left.key) or 'unknown'} and {shown(right.key) or 'unknown'}"
        wrong = f"{operator.kind} {operator.id!r} of {what} with {found}"
        remedy = "call .partition_by(...) on one of them before"
        raise PlanError(explain(wrong, "keys of one type, so that equal ones meet", remedy, operator.origin))


def _check_sides(operator: ops.JoinStreams, left: Flow, right: Flow) -> None:
    for side, flow in (("left", left), ("right", right)):
        if flow.value is UNKNOWN:
            wrong = f"join {operator.id!r} keeps {side} rows whose type is not known"
            remedy = "annotate what the last map before it returns"
            raise PlanError(explain(wrong, "a type to decode kept rows with", remedy, operator.origin))


def written_by(pipeline: Pipeline, operator: ops.Operator) -> tuple[str, ...]:
    """The streams an operator writes."""
    if isinstance(operator, ops.SendTo):
        return (operator.stream,)
    if isinstance(operator, ops.Border):
        return (intermediate(pipeline.name, operator.id),)
    if isinstance(operator, ops.WindowBy) and operator.late_to is not None:
        return (operator.late_to,)
    return ()

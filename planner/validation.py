"""Checks of a whole pipeline, before it is cut: every path ends, and every value that must be decoded has a type."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..dsl import operators as ops
from ..dsl.errors import PlanError, UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.serde import Serde, value_serde
from ..dsl.sink import BEGIN
from ..dsl.stream import MessageStream
from ..dsl.validation import explain, require
from .flow import Flow
from .kinds import PLANNER_KINDS
from .settings import Settings
from .type_inference import written_flow


def check_arguments(pipeline: object, partitions: object, settings: object) -> None:
    """Refuse arguments of wrong types: a pipeline, partition counts and settings are expected."""
    given = (
        repr(pipeline) if isinstance(pipeline, str | MessageStream) else f"an object of type {type(pipeline).__name__}"
    )
    remedy = "pass what Pipeline(...) made"
    if isinstance(pipeline, MessageStream):
        remedy = "pass the Pipeline, not one of its streams"
    elif isinstance(pipeline, str):
        remedy = "import the Pipeline from its file, and pass it; the command line takes files: fluvial plan FILE"
    wrong = f"a plan of {given}"
    require(isinstance(pipeline, Pipeline), UsageError, wrong, "a Pipeline", remedy)
    good = isinstance(partitions, Mapping) and all(type(count) is int and count >= 1 for count in partitions.values())
    wrong = f"partitions={partitions!r}"
    require(good, UsageError, wrong, "numbers of partitions, 1 or more, by stream", 'write partitions={"clicks": 4}')
    wrong = f"settings={settings!r}"
    require(isinstance(settings, Settings), UsageError, wrong, "Settings", "write Settings(guarantee=...)")


def check_partitions(partitions: Mapping[str, int], streams: Sequence[str]) -> None:
    """Refuse partition counts of streams that the plan does not have."""
    unknown = [name for name in partitions if name not in streams]
    wrong = f"partitions= names {', '.join(map(repr, unknown))}"
    expected = f"streams of the pipeline: {', '.join(map(repr, streams))}"
    require(not unknown, UsageError, wrong, expected, "correct the name, or leave it out")


def check_stage_names(pipeline: Pipeline, stages: Sequence[str], setting: str, value: object) -> None:
    """Refuse the value of a setting that names stages which the plan does not have."""
    named = value if isinstance(value, Mapping) else {}
    unknown = [name for name in named if name not in stages]
    if unknown:
        wrong = f"Settings: {setting} names {', '.join(map(repr, unknown))}"
        expected = f"stages of pipeline {pipeline.name!r}: {', '.join(map(repr, stages))}"
        raise PlanError(explain(wrong, expected, "correct the name, or leave it out", pipeline.origin))


def check_elastic(pipeline: Pipeline, stages: Mapping[str, Sequence[str]], settings: Settings) -> None:
    """Refuse to split a stage by key whose operators keep state by task."""
    for stage, members in stages.items():
        for operator in map(pipeline.operator, members):
            if settings.elasticity_of(stage) > 1 and not operator.is_elastic:
                wrong = f"{operator.label} with elasticity={settings.elasticity_of(stage)} of stage {stage!r}"
                remedy = f'name the stages to split: elasticity={{"...": 2}}; or give {operator.label} state="key"'
                raise PlanError(explain(wrong, "elasticity 1, for its state is by task", remedy, operator.origin))


def check_not_empty(pipeline: Pipeline) -> None:
    """Refuse a pipeline without operators."""
    if not pipeline.operators:
        wrong = f"pipeline {pipeline.name!r} has no operators"
        raise PlanError(explain(wrong, "a stream and a send_to", "start with pipeline.stream(...)", pipeline.origin))


def check_ends(pipeline: Pipeline) -> None:
    """Refuse a path that ends in no terminal operator, and an intermediate stream that nobody reads."""
    read = {source for operator in pipeline.operators for source in operator.inputs}
    used = {source for operator in pipeline.operators if operator.id in read for source in operator.inputs}
    for operator in pipeline.operators:
        is_end = operator.role == "terminal" and not operator.is_border
        # A table may end a path: `check_tables` checks that it is used.
        if operator.id in read or is_end or operator.is_table:
            continue
        if any(source in used and pipeline.operator(source).emits == "routed" for source in operator.inputs):
            continue  # another branch of the split is read
        wrong = f"nothing reads what {operator.label} emits"
        raise PlanError(
            explain(wrong, "a terminal operator", "end it with .send_to(...) or .sink(...)", operator.origin)
        )


def check_sinks(pipeline: Pipeline) -> None:
    """Refuse one sink of two operators that is told of parts of batches: it could not tell whose part it writes."""
    users: dict[int, ops.SinkTo] = {}
    for operator in pipeline.sinks:
        if hasattr(operator.sink, BEGIN):
            other = users.setdefault(id(operator.sink), operator)
            if other is not operator:
                wrong = f"{operator.label} has the sink of {other.label}, which has a method {BEGIN}"
                expected = "an object of its own for each operator, since a part of a batch is of one"
                raise PlanError(explain(wrong, expected, "make a second object", operator.origin))


def check_streams(pipeline: Pipeline) -> None:
    """Refuse a stream that is read and written by the same pipeline, or written under two meanings."""
    sources = {source.stream: source for source in pipeline.sources}
    written: dict[str, ops.Operator] = {}
    for operator in pipeline.operators:
        for name in written_by(pipeline, operator):
            if name in sources:
                wrong = (
                    f"{operator.kind} writes the stream {name!r}, which the pipeline reads at {sources[name].origin}"
                )
                remedy = "write another stream, or hand messages on with partition_by"
                raise PlanError(explain(wrong, "streams that are read or written", remedy, operator.origin))
            # Outputs may share a stream. An intermediate one carries watermarks, which no other writer knows.
            other = written.setdefault(name, operator)
            if operator.is_border != other.is_border:
                wrong = f"the stream {name!r} is also an intermediate stream of {other.kind} at {other.origin}"
                raise PlanError(explain(wrong, "a name of its own", "rename one of the two", operator.origin))


def check_formats(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse outputs to one stream whose `value=` are of two formats, such as Avro and JSON. Types are not refused: all
    are JSON, or text."""
    given: dict[str, ops.Operator] = {}
    for operator in pipeline.operators:
        is_output = operator.role == "terminal" and not operator.is_border
        if not is_output or not PLANNER_KINDS[operator].declares_value(operator):
            continue
        for name in written_by(pipeline, operator):
            other = given.setdefault(name, operator)
            one, two = (written_flow(writer, flows).value for writer in (other, operator))
            if Serde in (type(one), type(two)) and _format(one) != _format(two):
                wrong = f"{operator.label} writes {_format(two)}, and at {other.origin} {_format(one)}"
                remedy = "write to another stream, or pass Serdes of one format, which is their name before the colon"
                raise PlanError(explain(wrong, "values of one format in a stream", remedy, operator.origin))


def _format(type_: Any) -> str:
    """The format of a type or Serde: `avro` of the Serde `avro:Click`, `json` of a class."""
    return value_serde(type_).name.partition(":")[0]


def check_kinds(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse operators whose input types do not suit them."""
    for operator in pipeline.operators:
        PLANNER_KINDS[operator].check(operator, flows)


def check_tables(pipeline: Pipeline) -> None:
    """Refuse a table that no operator uses, and `changes()` of a table that the pipeline itself fills."""
    filled = {operator.fills: operator for operator in pipeline.operators if operator.fills is not None}
    read = {source for operator in pipeline.operators for source in operator.inputs}
    for operator in pipeline.operators:
        if operator.is_table and operator.id not in read | filled.keys():
            wrong = f"nobody uses the table {operator.id!r}"
            remedy = "join a stream with it, follow its .changes(), or leave it out"
            raise PlanError(explain(wrong, "a table that is looked up", remedy, operator.origin))
        followed = next((source for source in operator.fed_by if source in filled), None)
        if followed is not None:
            wrong = (
                f"{operator.kind} {operator.id!r} follows the changes of table {followed!r}, "
                f"which the pipeline fills itself at {filled[followed].origin}"
            )
            remedy = "use the stream that is sent to the table"
            raise PlanError(explain(wrong, "a table that is read from a stream", remedy, operator.origin))


def written_by(pipeline: Pipeline, operator: ops.Operator) -> tuple[str, ...]:
    """The names of the streams that an operator writes, in a pipeline of that name."""
    return PLANNER_KINDS[operator].writes(pipeline.name, operator)

"""The journals of calls: which operators have one, in which stream, and which cannot have one (ADR 0066)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN
from ..dsl.errors import PlanError
from ..dsl.operators.labels import function_name
from ..dsl.pipeline import Pipeline
from ..dsl.serde import type_name, value_serde
from ..dsl.validation import explain
from .flow import Flow
from .plan import Plan, PlannedStage
from .stages import border
from .stream_names import journal


@dataclass(frozen=True, slots=True)
class PlannedJournal:
    """The journal of an operator: the stream with a partition for each task number of the `stage`."""

    operator: str
    stream: str
    stage: PlannedStage


def journals_of(plan: Plan) -> list[PlannedJournal]:
    """The journals of a plan, in the order of their operators."""
    return [
        PlannedJournal(one.id, journal(plan.name, one.id), plan.stage(plan.operator(one.id).stage))
        for one in plan.pipeline.operators
        if keeps_journal(one)
    ]


def journals_in(plan: Plan, stage: str) -> dict[str, str]:
    """The streams of the journals of a stage, by operator."""
    return {one.operator: one.stream for one in journals_of(plan) if one.stage.id == stage}


def keeps_journal(operator: ops.Operator) -> bool:
    """Whether the results of an operator's calls are kept in a journal."""
    return operator.async_call is not None and operator.async_call.journal


def check_journals(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse a journal whose results are of no known type, or of calls that nothing names the same after a crash."""
    for operator in filter(keeps_journal, pipeline.operators):
        _check_type(operator, flows[operator.id].value)
        for before in _before(pipeline, operator):
            if before.role == "both" and before.kind != "window":
                wrong = f"{operator.label}: journal=True behind {before.label}, whose messages nothing names the same "
                wrong += "after a crash"
                remedy = "write partition_by between the two, or make the calls before it"
                expected = "messages of a stream, or panes of a window"
                raise PlanError(explain(wrong, expected, remedy, operator.origin))


def _check_type(operator: ops.Operator, type_: Any) -> None:
    call = operator.async_call
    what = f"{operator.label}: journal=True"
    if type_ in (UNKNOWN, Any, object) and call is not None:
        wrong = f"{what}, and {function_name(call.fn)} does not say the type of its results"
        remedy = "annotate it, such as -> list[int], or pass result=int, the type of one result"
        raise PlanError(explain(wrong, "a type by which they are kept", remedy, operator.origin))
    try:
        value_serde(type_)
    except (TypeError, NotImplementedError) as error:
        wrong = f"{what}, and results of type {type_name(type_)} cannot be decoded: {error}"
        remedy = "return such values, or pass result= with a Serde"
        expected = "a dataclass, Struct, TypedDict or builtin type"
        raise PlanError(explain(wrong, expected, remedy, operator.origin)) from None


def _before(pipeline: Pipeline, operator: ops.Operator) -> Iterator[ops.Operator]:
    """The operators in front of one in its stage."""
    seen, rest = set[str](), [*operator.inputs]
    while rest:
        id = rest.pop()
        if id in seen or border(pipeline, id):
            continue
        seen.add(id)
        yield pipeline.operator(id)
        rest += pipeline.operator(id).inputs

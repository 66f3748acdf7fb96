"""Checks of annotations against the types that flow: a function gets what it is annotated to take, and an output what
it declares. Certain contradictions alone are refused: of plain builtins and dataclasses."""

from collections.abc import Mapping

from ..dsl.annotations import is_decorated
from ..dsl.errors import PlanError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from .flow import Flow
from .kinds import PLANNER_KINDS
from .type_inference import typed_by


def check_annotations(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse a function that is annotated to take other values than it gets, and an output of another type."""
    for operator in pipeline.operators:
        inputs = [flows[source] for source in operator.inputs]
        for one in PLANNER_KINDS[operator].contradictions(operator, inputs):
            if one.source is None or _is_certain(pipeline, operator.inputs[one.source]):
                raise PlanError(explain(one.wrong, one.expected, one.remedy, operator.origin))


def _is_certain(pipeline: Pipeline, source: str) -> bool:
    """Whether no decorator may have changed what the annotations say of an operator's values."""
    declaring = typed_by(pipeline, pipeline.operator(source))
    return not any(is_decorated(PLANNER_KINDS[operator].typing_function(operator)) for operator in declaring)

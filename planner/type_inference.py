"""Types along the graph: what is known of the key and value that each operator of a pipeline emits."""

from collections.abc import Mapping

from ..dsl import operators as ops
from ..dsl.pipeline import Pipeline
from .flow import Flow
from .kinds import PLANNER_KINDS


def flows(pipeline: Pipeline) -> dict[str, Flow]:
    """The types of the key and value that each operator of a pipeline emits, by the id of the operator."""
    known: dict[str, Flow] = {}
    for operator in pipeline.operators:
        known[operator.id] = PLANNER_KINDS[operator].flow(operator, [known[source] for source in operator.inputs])
    return known


def typed_by(pipeline: Pipeline, operator: ops.Operator) -> tuple[ops.Operator, ...]:
    """The operators that declare the type of the values that an operator emits or writes: itself, or some before it."""
    declaring: dict[str, ops.Operator] = {}
    waiting = [operator]
    while waiting:
        one = waiting.pop()
        if PLANNER_KINDS[one].declares_value(one):
            declaring[one.id] = one
        else:
            waiting += [pipeline.operator(source) for source in reversed(one.inputs)]
    return tuple(declaring.values())


def written_flow(operator: ops.Operator, known: Mapping[str, Flow]) -> Flow:
    """The types of what an operator writes to its streams, by those that are `known` of all operators."""
    inputs = [known[source] for source in operator.inputs]
    return PLANNER_KINDS[operator].written(operator, inputs, known[operator.id])

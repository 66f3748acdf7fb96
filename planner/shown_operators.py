"""The operators of a plan that are shown to people, and their labels."""

from collections import Counter
from collections.abc import Iterable

from ..dsl.operators.labels import line_of
from ..dsl.origin import Origin
from .plan import Plan, PlannedOperator


def distinct_labels(operators: Iterable[PlannedOperator]) -> dict[str, str]:
    """The label of each operator by its id, with the line where it was written if another has the same label."""
    known = {operator.id: operator for operator in operators}
    often = Counter(operator.label for operator in known.values())
    return {
        id: op.label if often[op.label] == 1 else f"{op.label}, {line_of(Origin(op.file, op.line))}"
        for id, op in known.items()
    }


def in_sight(plan: Plan) -> tuple[PlannedOperator, ...]:
    """The operators that are shown: all except branches of a split that no operator reads."""
    read = {source for operator in plan.operators for source in operator.inputs}
    return tuple(operator for operator in plan.operators if operator.kind != "branch" or operator.id in read)

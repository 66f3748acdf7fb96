"""Checks of keys that several kinds of operators share. They raise PlanError."""

from ...dsl import operators as ops
from ...dsl.errors import PlanError
from ...dsl.validation import explain
from ..flow import known_name
from .row import Flows


def check_keyed(operator: ops.Operator, flows: Flows) -> None:
    """Refuse an operator whose input has no key, or keys of several types."""
    if flows[operator.inputs[0]].key is None:
        wrong = f"{operator.kind} {operator.id!r} on messages without one key type"
        remedy = f"call .partition_by(...) before .{operator.kind}"
        raise PlanError(explain(wrong, "a keyed stream", remedy, operator.origin))


def check_keys(operator: ops.Operator, flows: Flows, what: str) -> None:
    """Refuse a join of `what` whose keys are of different types, so that equal ones would not meet."""
    left, right = (flows[source] for source in operator.inputs)
    if left.key is None or left.key != right.key:
        key_types = f"keys of type {known_name(left.key) or 'unknown'} and {known_name(right.key) or 'unknown'}"
        wrong = f"{operator.kind} {operator.id!r} of {what} with {key_types}"
        remedy = "call .partition_by(...) on one of them before"
        raise PlanError(explain(wrong, "keys of one type, so that equal ones meet", remedy, operator.origin))

"""What the planner knows of operators that keep nothing: sources, functions of a value, splits and merges."""

from collections.abc import Iterator, Mapping

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, element_type, message_value, returned, taken
from ...dsl.operators.labels import function_name
from ..descriptions import duration, function_options, no_options
from ..flow import Flow, as_given, of_function
from . import contradictions
from .contradictions import Contradiction
from .row import PlannerKind, never


def _of_source(operator: ops.Source, _: list[Flow]) -> Flow:
    """The types that `key=` and `value=` of the stream declare."""
    return Flow(operator.key, operator.value)


def _of_messages(operator: ops.MapMessages, _: list[Flow]) -> Flow:
    """The values of the messages that the function returns; their keys are of no known type."""
    return Flow(None, message_value(returned(operator.fn)))


def _of_items(operator: ops.FlatMap, inputs: list[Flow]) -> Flow:
    """The type of the items of what its function returns, under the key of its input."""
    return Flow(inputs[0].key, element_type(returned(operator.fn)))


def _of_merge(_: ops.Merge, inputs: list[Flow]) -> Flow:
    """The types of its inputs where all agree; else no key, and values of unknown type."""
    first = inputs[0]
    same_key = all(flow.key == first.key for flow in inputs)
    same_value = all(flow.value == first.value for flow in inputs)
    return Flow(first.key if same_key else None, first.value if same_value else UNKNOWN)


def _of_predicates(operator: ops.Split, inputs: list[Flow]) -> Iterator[Contradiction]:
    for fn in operator.predicates:
        yield from contradictions.taking(operator, function_name(fn), taken(fn), inputs)


def _source_options(op: ops.Source) -> dict[str, str]:
    """How it tells the times of messages, and whether its messages come before those of other inputs."""
    options = {"timestamp": function_name(op.timestamp) if op.timestamp else "of the record"}
    if op.out_of_order:
        options["out_of_order"] = duration(op.out_of_order)
    if op.idle_after is not None:
        options["idle_after"] = duration(op.idle_after)
    if op.bootstrap:
        options["bootstrap"] = "first"
    if op.priority:
        options["priority"] = str(op.priority)
    return options


def _split_options(op: ops.Split) -> dict[str, str]:
    """The names of its predicates, in the order in which they are asked."""
    return {"predicates": ", ".join(map(function_name, op.predicates))}


def _branch_options(op: ops.Branch) -> dict[str, str]:
    """Its number among the branches, from 1."""
    return {"place": str(op.index + 1)}


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.Source: PlannerKind(flow=_of_source, options=_source_options),
    ops.Map: PlannerKind(flow=of_function, options=function_options, contradictions=contradictions.of_function),
    ops.MapMessages: PlannerKind(
        flow=_of_messages, options=function_options, contradictions=contradictions.of_messages
    ),
    ops.Filter: PlannerKind(
        flow=as_given,
        options=function_options,
        declares_value=never,
        contradictions=contradictions.of_function,
    ),
    ops.Split: PlannerKind(flow=as_given, options=_split_options, declares_value=never, contradictions=_of_predicates),
    ops.Branch: PlannerKind(flow=as_given, options=_branch_options, declares_value=never),
    ops.FlatMap: PlannerKind(flow=_of_items, options=function_options, contradictions=contradictions.of_function),
    ops.Merge: PlannerKind(flow=_of_merge, options=no_options, declares_value=never),
}

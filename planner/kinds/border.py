"""What the planner knows of borders, `partition_by` and `broadcast`: the types that cross from one stage to the next,
and the intermediate stream that they cross by."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.errors import PlanError
from ...dsl.operators.labels import function_name
from ...dsl.validation import explain
from ..descriptions import no_options
from ..flow import Flow
from ..stream_names import intermediate
from .contradictions import Contradiction, of_function, of_output
from .row import Flows, PlannerKind, if_given_value


def _writes_intermediate(pipeline: str, operator: ops.Operator) -> tuple[str, ...]:
    return (intermediate(pipeline, operator.id),)


def _of_partition_by(operator: ops.PartitionBy, inputs: list[Flow]) -> Flow:
    """Keys as `key_type=` declares them; values as `value=` does, or else as the border is given them."""
    return Flow(operator.key, _declared(operator.value, inputs))


def _of_broadcast(operator: ops.Broadcast, inputs: list[Flow]) -> Flow:
    """No key, for equal keys are in every task; values as `value=` declares them, or else as they are given."""
    return Flow(None, _declared(operator.value, inputs))


def _declared(value: Any, inputs: list[Flow]) -> Any:
    return inputs[0].value if value is None else value


def _of_key_and_value(operator: ops.PartitionBy, inputs: list[Flow]) -> Iterator[Contradiction]:
    yield from of_function(operator, inputs)
    yield from of_output(operator, inputs)


def _partition_by_options(op: ops.PartitionBy) -> dict[str, str]:
    """The name of the function that gives messages their keys, and whether they come before those of other inputs."""
    return {"key": function_name(op.fn), **({"priority": str(op.priority)} if op.priority else {})}


def _check_border(operator: ops.Border, flows: Flows) -> None:
    """Refuse values of unknown type, which the next stage could not decode."""
    if flows[operator.id].value is UNKNOWN:
        wrong = f"{operator.kind} {operator.id!r}: the type of its values is not known"
        remedy = "pass value=YourType, or annotate what the last map before it returns"
        raise PlanError(explain(wrong, "a value type at the border", remedy, operator.origin))


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.PartitionBy: PlannerKind(
        flow=_of_partition_by,
        options=_partition_by_options,
        declares_value=if_given_value,
        check=_check_border,
        contradictions=_of_key_and_value,
        writes=_writes_intermediate,
    ),
    ops.Broadcast: PlannerKind(
        flow=_of_broadcast,
        options=no_options,
        declares_value=if_given_value,
        check=_check_border,
        contradictions=of_output,
        writes=_writes_intermediate,
    ),
}

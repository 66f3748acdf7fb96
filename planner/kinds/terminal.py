"""What the planner knows of `send_to` and `sink`, where messages leave the pipeline: streams and types written."""

from collections.abc import Mapping

from ...dsl import operators as ops
from ...dsl.operators.labels import function_name
from ..flow import Flow, as_given
from .row import PlannerKind, if_given_value, never


def _writes_stream(_: str, operator: ops.SendTo) -> tuple[str, ...]:
    return (operator.stream,)


def _as_sent(operator: ops.SendTo, _: list[Flow], emitted: Flow) -> Flow:
    return Flow(emitted.key, emitted.value if operator.value is None else operator.value)


def _send_to_options(op: ops.SendTo) -> dict[str, str]:
    """The name of the function that gives records their keys, if it has one."""
    return {"key": function_name(op.key)} if op.key else {}


def _sink_options(op: ops.SinkTo) -> dict[str, str]:
    """The name of the sink's class."""
    return {"sink": type(op.sink).__name__}


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.SendTo: PlannerKind(
        flow=as_given,
        options=_send_to_options,
        declares_value=if_given_value,
        writes=_writes_stream,
        written=_as_sent,
    ),
    ops.SinkTo: PlannerKind(flow=as_given, options=_sink_options, declares_value=never),
}

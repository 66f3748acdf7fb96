"""What the planner knows of `send_to` and `sink`, where messages leave the pipeline: streams and types written."""

from collections.abc import Iterator, Mapping

from ...dsl import operators as ops
from ...dsl.annotations import element_type, message_value, taken
from ...dsl.operators.labels import function_name
from ..flow import Flow, as_given
from .contradictions import Contradiction, of_output, taking
from .row import PlannerKind, if_given_value, never


def _writes_stream(_: str, operator: ops.SendTo) -> tuple[str, ...]:
    return (operator.stream,)


def _as_sent(operator: ops.SendTo, _: list[Flow], emitted: Flow) -> Flow:
    return Flow(emitted.key, emitted.value if operator.value is None else operator.value)


def _send_to_options(op: ops.SendTo) -> dict[str, str]:
    """The name of the function that gives records their keys, if it has one."""
    return {"key": function_name(op.key)} if op.key else {}


def _of_key_and_value(operator: ops.SendTo, inputs: list[Flow]) -> Iterator[Contradiction]:
    if operator.key is not None:
        yield from taking(operator, function_name(operator.key), taken(operator.key), inputs)
    yield from of_output(operator, inputs)


def _of_write(operator: ops.SinkTo, inputs: list[Flow]) -> Iterator[Contradiction]:
    wanted = message_value(element_type(taken(operator.sink.write)))
    return taking(operator, f"{type(operator.sink).__name__}.write", wanted, inputs)


def _sink_options(op: ops.SinkTo) -> dict[str, str]:
    """The name of the sink's class."""
    return {"sink": type(op.sink).__name__}


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.SendTo: PlannerKind(
        flow=as_given,
        options=_send_to_options,
        declares_value=if_given_value,
        contradictions=_of_key_and_value,
        writes=_writes_stream,
        written=_as_sent,
    ),
    ops.SinkTo: PlannerKind(flow=as_given, options=_sink_options, declares_value=never, contradictions=_of_write),
}

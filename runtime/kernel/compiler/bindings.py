"""Binds the compiled code of a stage to the objects of a task: each object by the name that the code uses."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ....dsl import operators as ops
from ....dsl.message import Headers, Message
from ....dsl.serde import encode_key, value_serde
from ....planner.flow import plain
from ...process.interruptions import INTERRUPTIONS
from ..calls.call import Call
from ..calls.in_flight import InFlightMessage
from ..code.returned_values import check_answer
from ..code.source_code import source_names
from ..environment import StageEnvironment
from ..kinds import KERNEL_KINDS
from ..message_failures import message_opener
from ..operators.processing_time import ProcessingTimeOperator
from ..partial_aggregates import partial_decoder
from ..stateful_operator import StatefulOperator
from ..time.border_watermarks import pack_trailer, with_trailer
from ..time.bounds import END, START, wrong_time
from ..time.operator_watermarks import reached_by
from ..time.stage_input import StageInput
from ..time.watermarks import WatermarkGraph


def bind(environment: StageEnvironment) -> dict[str, Callable[..., Any]]:
    """Execute the compiled code of a task with the objects it uses. Returns the function that reads each input."""
    watermarks, tracker = environment.watermarks, environment.tracker
    failures, effects = environment.failures, environment.effects
    names: dict[str, Any] = {
        "now": watermarks.now,
        "paused": watermarks.excludes,
        "firings": tracker.firings,
        "upto": environment.counts.upto,
        "at": environment.places.index,
        "asked": environment.requests.asked,
        "next_fire": watermarks.next_fire,
        "emitted": environment.counts.emitted,
        "producer": environment.options.producer,
        "own_bucket": environment.options.bucket,
        "pack_trailer": pack_trailer,
        "with_trailer": with_trailer,
        "encode_key": encode_key,
        "Message": Message,
        "Call": Call,
        "fed": tracker.fed,
        "close": tracker.close,
        "failed_in_flight": failures.in_flight,
        "INTERRUPTIONS": INTERRUPTIONS,
        "emit_fired": effects.emit_fired,
        "drop_fired": effects.drop_fired,
        "passed": failures.passed,
        "failed_firing": failures.raise_firing,
        "open_firing": partial(_open_firing, environment),
        "wrong_time": wrong_time,
        "check_headers": check_headers,
        "check_answer": check_answer,
    }
    _bind_inputs(environment, names)
    operators = environment.program.graph.operators.values()
    for number, operator in enumerate(operators):
        bound = KERNEL_KINDS[operator].bind(environment, operator)
        names.update({f"{name}_{number}": value for name, value in bound.items()})
    exec(environment.program.code, names)
    for number, operator in enumerate(operators):
        _bind_state(environment, operator, number, names)
    return {stream: names[f"read_{number}"] for number, stream in enumerate(environment.program.graph.inputs)}


def _open_firing(environment: StageEnvironment, origin: str, *fired: Any) -> InFlightMessage:
    """Track what an operator has fired: key, value, timestamp and the watermark behind it. What it emits since it was
    given a message is of that message, as it were: no other waits for it."""
    watermarks, tracker = environment.watermarks, environment.tracker
    exclusive = watermarks.by_time[0] and environment.program.graph.operators[origin].is_exclusive
    message = (tracker.open_firing if exclusive else tracker.open)(fired[-1], origin, (origin, *fired[:-1]))
    # Not by the node in front: in a pause of a firing that time has made the input may end.
    message.at_end = watermarks.at_end[0]
    return message


def are_headers(headers: Any) -> bool:
    """Whether this is a tuple of pairs of str and bytes. A list is not, nor is a subclass of these types."""
    try:
        return headers.__class__ is tuple and all(type(name) is str and type(value) is bytes for name, value in headers)
    except (TypeError, ValueError):
        return False


def check_headers(headers: Any) -> None:
    """Raise TypeError if these are not the headers of a message."""
    if not are_headers(headers):
        raise TypeError(f"headers must be a tuple of pairs of str and bytes, not {headers!r}")


def _bind_inputs(environment: StageEnvironment, names: dict[str, Any]) -> None:
    inputs, failures = environment.inputs, environment.failures
    for number, stage_input in enumerate(environment.program.graph.inputs.values()):
        if stage_input.source is not None:
            names.update(source_names(stage_input.source, number))
        else:
            names.update(_border_names(environment, stage_input, number))
        names[f"failed_{number}"] = failures.message
        names[f"open_{number}"] = message_opener(environment.tracker, failures, stage_input.stream)
        names[f"advance_{number}"] = partial(inputs.advance, stage_input.stream)
        names[f"observe_{number}"] = partial(inputs.observe, stage_input.stream)
        names[f"seen_{number}"] = inputs.seen[stage_input.stream]


def _border_names(environment: StageEnvironment, stage_input: StageInput, number: int) -> dict[str, Any]:
    """What decodes the records of an intermediate stream."""
    type_ = environment.program.flows[stage_input.writer].value
    decode = value_serde(type_).decode
    if not stage_input.partials:
        return {f"decode_{number}": decode}
    aggregate = environment.program.graph.operators[stage_input.readers[0]].takes_partials.aggregate
    fed, stream = environment.counts.fed, stage_input.stream

    def count(messages: int) -> None:
        fed[stream] += messages

    partial = partial_decoder(decode, aggregate, aggregate.state(plain(type_)), count)
    return {f"decode_{number}": decode, f"partial_{number}": partial}


def _bind_state(environment: StageEnvironment, operator: ops.Operator, number: int, names: dict[str, Any]) -> None:
    """Make the state or the call pool of an operator. They call compiled code, so they are made after it is loaded; the
    compiled code finds them by name."""
    kind, after = KERNEL_KINDS[operator], names.get(f"after_{number}")
    if kind.make_state is not None:
        watermarks = environment.watermarks
        stateful = kind.make_state(environment, operator, after)
        if operator.time_domain == "processing":
            stateful = ProcessingTimeOperator(stateful, _clock_at(watermarks, environment.node_in(operator.id)))
            watermarks.clock_users.attach(operator.id, stateful.due)
        environment.stateful[operator.id] = stateful
        watermarks.attach(operator.id, stateful)
        _bind_add(environment, operator, stateful, names, f"add_{number}")
        names[f"undo_{number}"] = partial(environment.effects.undo, operator.id)
    attached = kind.attach(environment, operator, after)
    names.update({f"{name}_{number}": value for name, value in attached.items()})


def _clock_at(watermarks: WatermarkGraph, node: int) -> Callable[[], int]:
    """A function that returns the processing time at a clock node; END once its input has ended. The node itself may be
    behind the clock while an operator before it fires."""

    def clock() -> int:
        return END if watermarks.now[node] == END else watermarks.clock

    return clock


def _bind_add(
    environment: StageEnvironment, operator: ops.Operator, stateful: StatefulOperator, names: dict[str, Any], name: str
) -> None:
    """Bind the `add` of an operator. If the operator's own watermark is greater than the one in front of it, it judges
    messages by its own watermark until the other has reached it. So it always does where several inputs meet in front
    of it beside calls: while a message waits for its calls, others may move time on."""
    own, add = reached_by(environment.watermarks, operator.id), stateful.add
    names[name] = add
    if environment.program.asynchronous and _meets_inputs(environment, operator.id):
        names[name] = _add_as_it_lands(environment.watermarks, operator.id, add)
        return
    if own == START or own <= environment.watermarks.now[environment.node_in(operator.id)]:
        return

    def add_by_own(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, *side: int) -> None:
        if watermark >= own:
            names[name] = add
        add(key, value, timestamp, headers, max(watermark, own), *side)

    names[name] = add_by_own


def _meets_inputs(environment: StageEnvironment, operator: str) -> bool:
    """Whether several inputs meet in front of an operator with a watermark of its own. Behind one alone the time of a
    message that is in flight holds the operator back."""
    watermarks = environment.watermarks
    return operator in watermarks.of_nodes.operators and watermarks.nodes[environment.node_in(operator)].kind == "merge"


def _add_as_it_lands(watermarks: WatermarkGraph, operator: str, add: Callable[..., None]) -> Callable[..., None]:
    """The `add` of an operator that judges messages by its own watermark at the time at which they land."""

    def add_landed(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, *side: int) -> None:
        add(key, value, timestamp, headers, max(watermark, reached_by(watermarks, operator)), *side)

    return add_landed

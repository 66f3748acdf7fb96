"""The kernel's row of windows: which of the window operators runs a window, and what its panes need."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ....dsl import operators as ops
from ....dsl.message import Headers
from ....dsl.operators import Operator
from ....dsl.serde import key_serde
from ....dsl.windows.aggregates import Aggregate
from ....dsl.windows.assigners import Hopping, Session, Tumbling, Unbounded
from ....planner.flow import plain
from ..code.returned_values import UnencodableValue
from ..code.stage_graph import StageGraph
from ..environment import StageEnvironment
from ..partial_aggregates import messages_in, taking_partials
from ..stateful_operator import StatefulOperator
from ..time.bounds import START
from ..windows.context import WindowContext
from ..windows.sessions import SessionOperator
from ..windows.triggered import TriggeredWindowOperator
from ..windows.triggered_sessions import TriggeredSessionOperator
from ..windows.triggers import AT_ONCE, NEVER
from ..windows.tumbling import TumblingOperator
from .binding import schedule_of, serde_of, size_check_of
from .row import KernelKind
from .writing import after_firing, write_stateful

_WINDOWS: Mapping[Any, Any] = {
    Tumbling: lambda context, by: TumblingOperator(context, by.size),
    Hopping: lambda context, by: TriggeredWindowOperator(context, by, NEVER, AT_ONCE),
    Session: lambda context, by: SessionOperator(context, by.gap),
    Unbounded: lambda context, by: TriggeredWindowOperator(context, by, NEVER, AT_ONCE),
}

_TRIGGERED: Mapping[Any, Any] = {
    Tumbling: TriggeredWindowOperator,
    Hopping: TriggeredWindowOperator,
    Session: lambda context, by, early, late: TriggeredSessionOperator(context, by.gap, early, late),
    Unbounded: TriggeredWindowOperator,
}
"""With triggers."""


def _make_window(environment: StageEnvironment, operator: ops.WindowBy, emit: Callable[..., None]) -> StatefulOperator:
    """Make the windows of an operator: by its assigner, with triggers or without."""
    flow = environment.program.flows[operator.inputs[0]]
    node = environment.program.graph.node_out[operator.id]
    watermark, lateness = environment.watermarks.now[node], operator.lateness
    in_processing_time = operator.time_domain == "processing"
    context = WindowContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=watermark,
        forgotten=START if in_processing_time else environment.lateness.forgotten(operator.id, lateness, watermark),
        aggregate=_aggregate_of(environment, operator),
        state_type=operator.aggregate.state(plain(flow.value)),
        decode_key=key_serde(flow.key).decode,
        lateness=lateness,
        accumulate=operator.accumulate,
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, operator.id)),
        late=_late(environment, operator, flow.value),
        schedule=schedule_of(environment, operator),
        firing=partial(environment.firing, node),
        pauses=environment.pauses,
        keeps=environment.options.keeps_at_end and operator.accumulate,
        fired=environment.fired_windows.of(operator.id),
    )
    window: StatefulOperator
    if operator.trigger is None and operator.late_trigger is None:
        window = _WINDOWS[type(operator.assigner)](context, operator.assigner)
    else:
        triggers = (operator.trigger or NEVER, operator.late_trigger or AT_ONCE)
        window = _TRIGGERED[type(operator.assigner)](context, operator.assigner, *triggers)
    if _admits(environment, operator):
        environment.watermarks.admitting.add(operator.id)
    return window


def _admits(environment: StageEnvironment, operator: ops.WindowBy) -> bool:
    """Whether messages may be processed in the middle of a firing. The watermark in front of the window must go on
    meanwhile, so that the same messages are late; and nothing but such windows may fire beside it, since nothing fires
    until its own firing is over: timers would see messages that come behind them."""
    graph = environment.program.graph
    windows = [id for id, one in graph.operators.items() if isinstance(one, ops.WindowBy) and _takes_more(one)]
    beside = {id for stream in graph.inputs for id in graph.reached_before(stream, windows)}.difference(windows)
    firing = [id for id in beside if graph.operators[id].role == "both" and not graph.operators[id].is_table]
    in_front = environment.node_in(operator.id) in environment.watermarks.front
    return environment.program.asynchronous and operator.id in windows and in_front and not firing


def _takes_more(operator: ops.WindowBy) -> bool:
    """Whether messages may be added in the middle of a firing: none of them is for a window that fires. A session may
    still grow then, and late panes would come before those on time."""
    aligned = type(operator.assigner) in (Tumbling, Hopping) and operator.time == "event"
    plain = aligned and operator.trigger is None and not operator.lateness
    return plain and not operator.is_exclusive


def _aggregate_of(environment: StageEnvironment, operator: ops.WindowBy) -> Aggregate[Any, Any]:
    inputs = environment.program.graph.inputs.values()
    partials = any(stage_input.partials for stage_input in inputs if operator.id in stage_input.readers)
    return taking_partials(operator.aggregate) if partials else operator.aggregate


def _late(
    environment: StageEnvironment, operator: ops.WindowBy, type_: Any
) -> Callable[[bytes, Any, int, Headers], None]:
    """A function that takes a message which is too late for a window: it counts it, and writes it to `late_to=`."""
    serde, name = serde_of(type_), f"the stream {operator.late_to}"
    records = environment.outputs.of(operator.id)
    counts, id, send = environment.counts.late, operator.id, operator.late_to is not None
    check = size_check_of(environment, operator.id)

    def late(key: bytes, value: Any, timestamp: int, headers: Headers) -> None:
        counts[id] = counts.get(id, 0) + messages_in(value)
        if send:
            try:
                data = None if value is None else serde.encode(value)
            except Exception as error:
                raise UnencodableValue(value, name, serde.name, error) from error
            if check is not None:
                check(key, data, headers)
            records.append((key, data, timestamp, headers))

    return late


def _early_or_late(graph: StageGraph, operator: ops.WindowBy) -> bool:
    """A late pane is emitted with its message, and a trigger may fire with any message."""
    return operator.lateness > 0 or (operator.trigger is not None and graph.meets_time(operator.id))


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.WindowBy: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_window, emits_at_once=_early_or_late
    ),
}

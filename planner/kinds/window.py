"""What the planner knows of windows: the type of their panes, their options, and the meaning of their state."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.errors import PlanError
from ...dsl.message import Pane
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ...dsl.windows.triggers import Trigger
from ..descriptions import assigner_text, duration, exclusive_options, time_options, trigger_text
from ..flow import Flow, known_name, plain
from .checks import check_keyed
from .contradictions import Contradiction, taking
from .row import Flows, Meaning, OperatorState, PlannerKind, always
from .state_facts import key_facts


def _writes_late(_: str, operator: ops.WindowBy) -> tuple[str, ...]:
    return () if operator.late_to is None else (operator.late_to,)


def _as_given(_: ops.Operator, inputs: list[Flow], __: Flow) -> Flow:
    return inputs[0]


def _of_window(operator: ops.WindowBy, inputs: list[Flow]) -> Flow:
    """Panes of what the aggregate gives for values of the input type, under the key of the input."""
    key, value = inputs[0].key, plain(inputs[0].value)
    gives = operator.aggregate.gives(value)
    return Flow(key, Pane[plain(key), Any if gives is UNKNOWN else gives])  # type: ignore[misc]


def _window_options(op: ops.WindowBy) -> dict[str, str]:
    """Its windows, its aggregate, when it emits, and where late messages go."""
    options = {"windows": assigner_text(op.assigner), "aggregate": op.aggregate.name}
    for name, trigger in (("early", op.trigger), ("late", op.late_trigger)):
        if trigger is not None:
            options[name] = trigger_text(trigger)
    if op.lateness:
        options["lateness"] = duration(op.lateness)
    if op.late_to is not None:
        options["late_to"] = op.late_to
    if not op.accumulate:
        options["panes"] = "discarding"
    return options | time_options(op) | exclusive_options(op)


def _check_window(operator: ops.WindowBy, flows: Flows) -> None:
    """Refuse a stream without key, and an accumulator that could not be kept."""
    check_keyed(operator, flows)
    state = operator.aggregate.state(plain(flows[operator.inputs[0]].value))
    if state is UNKNOWN:
        wrong = f"window {operator.id!r}: {operator.aggregate.name}() keeps values whose type is not known"
        remedy = "annotate what the last map before it returns, or use aggregate(..., type=...)"
        raise PlanError(explain(wrong, "a type to decode kept values with", remedy, operator.origin))
    try:
        msgspec.msgpack.Decoder(state)
    except (TypeError, NotImplementedError) as error:
        wrong = f"window {operator.id!r}: its accumulator cannot be kept: {error}"
        raise PlanError(
            explain(wrong, "a type that msgspec can decode", "pass type= to aggregate", operator.origin)
        ) from None


def _of_aggregate(operator: ops.WindowBy, inputs: list[Flow]) -> Iterator[Contradiction]:
    aggregate = operator.aggregate
    for wanted in aggregate.takes:
        yield from taking(operator, aggregate.taker, wanted, inputs)


def _window_state(_: Pipeline, op: ops.WindowBy, inputs: list[Flow]) -> Meaning:
    """Facts: the key, windows, kind of aggregate and triggers. Types: that of the accumulator."""
    facts = {
        **key_facts(inputs[0].key),
        "windows": assigner_text(op.assigner),
        "time": op.time,
        "aggregate": op.aggregate.kind,
        "panes": "accumulating" if op.accumulate else "discarding",
        "trigger": _trigger(op.trigger),
        "late trigger": _trigger(op.late_trigger),
    }
    return facts, {"accumulator": op.aggregate.state(plain(inputs[0].value))}


def _trigger(trigger: Trigger | None) -> str:
    """A trigger without the number of messages that it waits for, which may change."""
    if trigger is None:
        return "none"
    parts = {
        "messages": trigger.count is not None,
        f"{duration(trigger.first or 0)} from the first": trigger.first is not None,
        f"{duration(trigger.last or 0)} from the last": trigger.last is not None,
    }
    conditions = " or ".join(text for text, there in parts.items() if there)
    return f"{'each time' if trigger.repeats else 'once'} after {conditions}"


def _window_text(op: ops.WindowBy, inputs: list[Flow]) -> str:
    """The type of its accumulator."""
    return known_name(op.aggregate.state(plain(inputs[0].value))) or "json"


def _discards(op: ops.WindowBy) -> str:
    return "" if op.accumulate else "its panes hold what came since the last one, and each end of input emits one"


def _has_times(op: ops.WindowBy) -> bool:
    triggers = (trigger for trigger in (op.trigger, op.late_trigger) if trigger is not None)
    return op.time == "event" and any(trigger.first or trigger.last for trigger in triggers)


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.WindowBy: PlannerKind(
        flow=_of_window,
        options=_window_options,
        check=_check_window,
        contradictions=_of_aggregate,
        writes=_writes_late,
        written=_as_given,
        state=OperatorState(shown=_window_text, meaning=_window_state),
        fires_at_end=always,
        fires_early=_has_times,
        end_dependence=_discards,
    ),
}

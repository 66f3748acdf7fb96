"""What the planner knows of stream tasks: the types that the class declares, and the states that it keeps."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.async_stream_task import AsyncStreamTask
from ...dsl.errors import PlanError
from ...dsl.pipeline import Pipeline
from ...dsl.stream_task import HOOKS, StreamTask, hooks_of
from ...dsl.validation import explain
from ..descriptions import duration, exclusive_options
from ..flow import Flow, as_given, known_name
from .contradictions import Contradiction, taking, taking_keys
from .process import arguments_of, state_options, states_meaning, states_text, tag_options
from .row import Flows, Meaning, OperatorState, PlannerKind
from .state_facts import key_facts

STATE_BY_TASK = "task"
"""What stands for the serde of keys in the facts of state that is of a whole task."""


def _of_task(operator: ops.Task, inputs: list[Flow]) -> Flow:
    """The type of what the task sends without a tag; under the key of its input if its state is by key."""
    declared = _declared(operator)[2]
    unknown = declared is Any or isinstance(declared, TypeVar)
    return Flow(inputs[0].key if operator.by_key else None, UNKNOWN if unknown else declared)


def _declared(operator: ops.Task | ops.TaskCall) -> tuple[Any, Any, Any]:
    """The types that its class declares: of keys, of values, and of what it sends."""
    base = AsyncStreamTask if isinstance(operator.sample, AsyncStreamTask) else StreamTask
    arguments = arguments_of(type(operator.sample), base)
    return (arguments[0], arguments[1], arguments[2]) if len(arguments) == 3 else (UNKNOWN, UNKNOWN, UNKNOWN)


def _task_options(op: ops.Task) -> dict[str, str]:
    """The class, what its state is for, its states, methods and side outputs."""
    options = {"task": type(op.sample).__name__, "state by": "key" if op.by_key else "task"} | state_options(op.sample)
    if op.window is not None:
        options["window"] = f"each {duration(op.window)}"
    if hooks := [name for name in hooks_of(op.sample) if name in HOOKS and name != "window"]:
        options["methods"] = ", ".join(hooks)
    return options | exclusive_options(op) | tag_options(op.sample)


def _check_task(operator: ops.Task, flows: Flows) -> None:
    """Refuse state by key where messages have no key, or keys of several types."""
    keys = [flows[source].key for source in operator.inputs]
    if operator.by_key and (keys[0] is None or any(key != keys[0] for key in keys)):
        names = " and ".join(known_name(key) or "unknown" for key in keys)
        wrong = f"{operator.label} keeps state by key, and gets keys of type {names}"
        remedy = 'call .partition_by(...) before, or write state="task"'
        raise PlanError(explain(wrong, "keys of one type, so that equal ones meet", remedy, operator.origin))


def _of_task_types(operator: ops.Task | ops.TaskCall, inputs: list[Flow]) -> Iterator[Contradiction]:
    """What its class declares to take; of several inputs, whose types may be some of those, nothing is known."""
    key, value, _ = _declared(operator)
    name = type(operator.sample).__name__
    if len(inputs) == 1:
        yield from taking(operator, name, value, inputs)
    if operator.by_key:
        yield from taking_keys(operator, name, key, inputs)


def _call_options(op: ops.TaskCall) -> dict[str, str]:
    """The limits of its calls."""
    return {"max_in_flight": str(op.call.max_in_flight), "timeout": duration(op.call.timeout)}


def _task_state(_: Pipeline, op: ops.Task, inputs: list[Flow]) -> Meaning:
    """What the state is for, the form of each, and the types of their values."""
    facts, types = states_meaning(op.sample)
    return (key_facts(inputs[0].key) if op.by_key else {"key": STATE_BY_TASK}) | facts, types


def _task_text(op: ops.Task, _: list[Flow]) -> str:
    """The names and types of its states."""
    return states_text(op.sample) or "none"


def _ends(op: ops.Task) -> bool:
    return "on_end_of_stream" in hooks_of(op.sample) or "on_drain" in hooks_of(op.sample)


def _called_at_end(op: ops.Task) -> str:
    return "at each end of input its method for it is called" if _ends(op) else ""


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.Task: PlannerKind(
        flow=_of_task,
        options=_task_options,
        check=_check_task,
        contradictions=_of_task_types,
        state=OperatorState(shown=_task_text, meaning=_task_state),
        fires_at_end=_ends,
        end_dependence=_called_at_end,
    ),
    ops.TaskCall: PlannerKind(flow=as_given, options=_call_options, contradictions=_of_task_types),
}

"""The state of each kind of operator: the facts and types that give it a meaning, and its shown type."""

from typing import Any

from ..dsl import operators as ops
from ..dsl.annotations import returned
from ..dsl.keyed_state import ListState, MapState, State
from ..dsl.pipeline import Pipeline
from ..dsl.processor import states_of
from ..dsl.serde import Serde, key_serde
from ..dsl.triggers import Trigger
from .descriptions import assigner_text, duration, state_text
from .flow import Flow, plain, shown, without_none
from .sides import side_facts
from .state_schema import WHOLE_NAME

Meaning = tuple[dict[str, str], dict[str, Any]]
"""The facts and the types that give state its meaning, by name: see `StateSchema`."""


def window_state(_: Pipeline, op: ops.WindowBy, inputs: list[Flow]) -> Meaning:
    """Key, windows, kind of aggregate and triggers; the type of the accumulator."""
    facts = {
        **_key(inputs[0].key),
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


def join_state(pipeline: Pipeline, op: ops.JoinStreams, inputs: list[Flow]) -> Meaning:
    """Keys, rows and sides; the types of the rows."""
    left, right = inputs
    facts = {
        **_key(left.key),
        "how": op.how,
        "within": duration(op.within),
        "retain": op.retain,
        "time": op.time,
        **_rows("left rows", left.value),
        **_rows("right rows", right.value),
        **side_facts(pipeline, op),
    }
    return facts, {**_type("left", left.value), **_type("right", right.value)}


def table_state(_: Pipeline, op: ops.TableOf, inputs: list[Flow]) -> Meaning:
    """Key, rows and where they come from; the type of the rows."""
    facts = {**_key(op.key), "rows come from": "its stream" if inputs else "the pipeline", **_rows("rows", op.value)}
    return facts, _type("row", op.value)


def joined_table_state(_: Pipeline, op: ops.JoinTables, inputs: list[Flow]) -> Meaning:
    """Key and the tables that are joined; the type of the rows that its function returns."""
    left, right = op.inputs
    row = without_none(returned(op.fn))
    facts = {**_key(inputs[0].key), "how": op.how, "left": left, "right": right, **_rows("rows", row)}
    return facts, _type("row", row)


def deduplicate_state(_: Pipeline, op: ops.Deduplicate, inputs: list[Flow]) -> Meaning:
    """Key, and the type of what messages are told apart by besides. What is kept are times: `within` may change."""
    by = {"by": "nothing"} if op.by is None else _serde_facts("by", key_serde(op.by_type))
    return {**_key(inputs[0].key), **by}, {}


def process_state(_: Pipeline, op: ops.Process, inputs: list[Flow]) -> Meaning:
    """Key, and the form of each state of the processor; the types of their values."""
    facts, types = _key(inputs[0].key), dict[str, Any]()
    for name, state in states_of(op.processor).items():
        facts |= _state(name, state)
        types |= _type(f"values of state {name}", state.kind)
    return facts, types


def _state(name: str, state: State) -> dict[str, str]:
    """The form of a state. How long entries are kept may change; that they say when they were written may not."""
    aged = ", with ttl" if state.ttl else ""
    # A state of a type of MessagePack needs no serde.
    format = f" as {_format(state.kind)}" if isinstance(state.kind, Serde) else ""
    form = "list" if isinstance(state, ListState) else "value"
    keys = {}
    if isinstance(state, MapState):
        form, keys = f"map by {key_serde(state.key).name}", _layout(f"keys of state {name}", key_serde(state.key))
    return {f"state {name}": f"{form}{format}{aged}", **keys, **_layout(f"values of state {name}", state.kind)}


def _key(kind: Any) -> dict[str, str]:
    return _serde_facts("key", key_serde(kind))


def _serde_facts(what: str, serde: Serde[Any]) -> dict[str, str]:
    return {what: serde.name, **_layout(what, serde)}


def _rows(what: str, kind: Any) -> dict[str, str]:
    return {what: _format(kind), **_layout(what, kind)}


def _format(kind: Any) -> str:
    """The format in which values are encoded: what a serde's name says before the type."""
    if isinstance(kind, Serde):
        return kind.name.partition(":")[0]
    return kind.__name__ if kind in (str, bytes) else "json"


def _layout(what: str, kind: Any) -> dict[str, str]:
    """What a serde tells of its bytes; the whole name of one that tells nothing."""
    if not isinstance(kind, Serde):
        return {}
    if kind.layout is None:
        return {what + WHOLE_NAME: kind.name}
    return {f"{what}, {name}": text for name, text in kind.layout.items()}


def _type(name: str, kind: Any) -> dict[str, Any]:
    """The type of values, unless their serde's layout says all that there is to compare."""
    return {} if isinstance(kind, Serde) and kind.layout else {name: plain(kind)}


def window_text(op: ops.WindowBy, inputs: list[Flow]) -> str:
    """The accumulator."""
    return shown(op.aggregate.state(plain(inputs[0].value))) or "json"


def join_text(_: ops.JoinStreams, inputs: list[Flow]) -> str:
    """The rows of both sides."""
    return " and ".join(shown(flow.value) or "json" for flow in inputs)


def table_text(op: ops.TableOf, _: list[Flow]) -> str:
    """The rows."""
    return shown(op.value) or "json"


def joined_table_text(op: ops.JoinTables, _: list[Flow]) -> str:
    """The rows that its function returns."""
    return shown(without_none(returned(op.fn))) or "json"


def deduplicate_text(_: ops.Deduplicate, __: list[Flow]) -> str:
    """The times of the messages that were passed on."""
    return "times"


def process_text(op: ops.Process, _: list[Flow]) -> str:
    """The states of the processor."""
    states = states_of(op.processor).items()
    # How long entries are kept may change; that they say when they were written may not.
    return (
        ", ".join(f"{name}: {state_text(state)}{' with ttl' if state.ttl else ''}" for name, state in states)
        or "timers"
    )

"""What gives the state of an operator its meaning: a record that is kept with the state, and compared before a run."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from ..dsl import operators as ops
from ..dsl.annotations import returned
from ..dsl.pipeline import Pipeline
from ..dsl.processing import states_of
from ..dsl.serde import Serde, key_serde
from ..dsl.states import ListState, MapState, State
from ..dsl.triggers import Trigger
from .labels import assigner_text, duration
from .sides import FROM, OWN, THROUGH, side_facts, swapped
from .type_history import merged_types
from .type_reading import obstacle
from .type_schema import TypeSchema, schema_text, type_schema
from .types import Flow, plain, without_none

VERSION = 1
PARTITIONS = "partitions"
"""The fact that says over how many tasks the keys are spread."""


class StateSchema(Struct, frozen=True, kw_only=True):
    """What may not change as long as the state of an operator is kept: `facts` by name, as people read them, and the
    `types` of what is kept. User functions count by the types that they declare.

    A later version may know more of an operator: what only one of two records has is not compared.

    >>> pipeline = Pipeline("busy")
    >>> clicks = pipeline.stream("clicks", key=str, value=str)
    >>> clicks.window(tumbling(timedelta(minutes=1)), count(), id="per-minute").send_to("busy")
    >>> plan(pipeline).stores[0].schema.facts["windows"]
    'tumbling 1 min'
    """

    version: int = VERSION
    kind: str
    facts: dict[str, str] = {}
    types: dict[str, TypeSchema] = {}


def state_schema(pipeline: Pipeline, operator: ops.Operator, inputs: list[Flow], partitions: int) -> StateSchema:
    """The record of an operator that keeps state. `inputs` is what it is given; `partitions` says over how many tasks
    its keys are spread."""
    facts, types = _SCHEMAS[type(operator)](operator, inputs)
    if isinstance(operator, ops.JoinStreams):
        facts |= side_facts(pipeline, operator)
    schemas = {name: type_schema(kind) for name, kind in types.items()}
    return StateSchema(kind=operator.kind, facts={**facts, PARTITIONS: str(partitions)}, types=schemas)


def differences(kept: StateSchema, wanted: StateSchema) -> list[str]:
    """How the meaning of state that is kept differs from the one that is wanted, a line for each respect."""
    if kept.kind != wanted.kind:
        return [f"it was a {kept.kind}, and is a {wanted.kind}"]
    changed = {
        name: now
        for name, now in wanted.facts.items()
        if name not in _SIDES and _alike(kept.facts.get(name, now)) != _alike(now)
    }
    facts = [
        _changed(name, kept.facts[name], now)
        for name, now in changed.items()
        if name.removesuffix(_WHOLE_NAME) == name or name.removesuffix(_WHOLE_NAME) not in changed
    ]
    sides = swapped(kept.facts, wanted.facts)
    types = [
        _changed(name, schema_text(kept.types[name]), schema_text(now)) + (f" ({why})" if why else "")
        for name, now in wanted.types.items()
        if name in kept.types and (why := _obstacle(kept, name, now)) is not None
    ]
    return facts + ([] if sides is None else [sides]) + types


def _obstacle(kept: StateSchema, name: str, wanted: TypeSchema) -> str | None:
    """What keeps values of a name from being read as the wanted type; None where nothing does."""
    before = kept.types[name]
    form = kept.facts.get(name.removeprefix("values of "), "")
    # Items of other types are told from encoded ones where a list is read; these cannot be.
    if form in ("list", "list, with ttl") and (before.schema == "bytes") != (wanted.schema == "bytes"):
        return "items of the type bytes are kept as they are, others encoded"
    return obstacle(wanted, before)


def carried(kept: Mapping[str, StateSchema], wanted: Mapping[str, StateSchema]) -> dict[str, StateSchema]:
    """The records, by operator, of state of which a run has found the `kept` ones and goes on with the `wanted` ones.

    What runs have left is still there: operators, states of a processor and fields that are gone may come back, and
    are compared then.
    """
    return {**kept, **{name: _merged(kept[name], now) if name in kept else now for name, now in wanted.items()}}


def _merged(kept: StateSchema, wanted: StateSchema) -> StateSchema:
    if differences(kept, wanted):
        return wanted
    types = {
        name: merged_types(kept.types[name], now) if name in kept.types else now for name, now in wanted.types.items()
    }
    return structs.replace(wanted, facts={**kept.facts, **wanted.facts}, types={**kept.types, **types})


def _changed(name: str, before: str, now: str) -> str:
    return f"{name}: was {before}, is {now}"


_WHOLE_NAME = ", serde"
"""The end of a fact that has the whole name of a serde, of which another fact has what is before a colon."""
_SIDES = {f"{side} {how}" for side in ("left", "right") for how in (OWN, FROM, THROUGH)}


def _alike(fact: str) -> str:
    """A fact, without a difference in name alone: keys of the types int and INT64 are the same bytes."""
    return {"int64": "int"}.get(fact, fact.replace("map by int64", "map by int"))


Meaning = tuple[dict[str, str], dict[str, Any]]
"""Facts, and types, by name."""


def _window(op: ops.WindowBy, inputs: list[Flow]) -> Meaning:
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
    told = " or ".join(text for text, there in parts.items() if there)
    return f"{'each time' if trigger.repeats else 'once'} after {told}"


def _join(op: ops.JoinStreams, inputs: list[Flow]) -> Meaning:
    left, right = inputs
    facts = {
        **_key(left.key),
        "how": op.how,
        "within": duration(op.within),
        "retain": op.retain,
        "time": op.time,
        **_rows("left rows", left.value),
        **_rows("right rows", right.value),
    }
    return facts, {**_type("left", left.value), **_type("right", right.value)}


def _table(op: ops.TableOf, inputs: list[Flow]) -> Meaning:
    facts = {**_key(op.key), "rows come from": "its stream" if inputs else "the pipeline", **_rows("rows", op.value)}
    return facts, _type("row", op.value)


def _joined_tables(op: ops.JoinTables, inputs: list[Flow]) -> Meaning:
    left, right = op.inputs
    row = without_none(returned(op.fn))
    facts = {**_key(inputs[0].key), "how": op.how, "left": left, "right": right, **_rows("rows", row)}
    return facts, _type("row", row)


def _process(op: ops.Process, inputs: list[Flow]) -> Meaning:
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
    serde = key_serde(kind)
    return {"key": serde.name, **_layout("key", serde)}


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
        return {what + _WHOLE_NAME: kind.name}
    return {f"{what}, {name}": text for name, text in kind.layout.items()}


def _type(name: str, kind: Any) -> dict[str, Any]:
    """The type of values, unless their serde's layout says all that there is to compare."""
    return {} if isinstance(kind, Serde) and kind.layout else {name: plain(kind)}


_SCHEMAS: Mapping[type[ops.Operator], Callable[[Any, list[Flow]], Meaning]] = {
    ops.WindowBy: _window,
    ops.JoinStreams: _join,
    ops.TableOf: _table,
    ops.JoinTables: _joined_tables,
    ops.Process: _process,
}

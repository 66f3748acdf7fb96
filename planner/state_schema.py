"""The schema of an operator's state: a record that is kept with the state, and compared before each run."""

from collections.abc import Mapping

from msgspec import Struct, structs

from .sides import FROM, OWN, THROUGH, swapped
from .type_history import merged_types
from .type_reading import obstacle
from .type_schema import TypeSchema, schema_text

# What an operator has more in a later version needs no new number: facts that one record lacks are not compared.
VERSION = 1
PARTITIONS = "partitions"
"""The fact that says over how many tasks the keys are spread."""

STATE = "state "
"""The beginning of the fact that has the form of a state of a processor; its name follows."""
CLOCK_TIMERS = "timers in processing time"
"""The fact of a processor that declares them."""


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


def differences(stored: StateSchema, wanted: StateSchema) -> list[str]:
    """How the meaning of state that is kept differs from the one that is wanted, a line for each respect."""
    if stored.kind != wanted.kind:
        return [f"it was a {stored.kind}, and is a {wanted.kind}"]
    changed = {
        name: now
        for name, now in wanted.facts.items()
        if name not in _SIDES and _alike(stored.facts.get(name, now)) != _alike(now)
    }
    facts = [
        _changed(name, stored.facts[name], now)
        for name, now in changed.items()
        if name.removesuffix(WHOLE_NAME) == name or name.removesuffix(WHOLE_NAME) not in changed
    ]
    sides = swapped(stored.facts, wanted.facts)
    types = [
        _changed(name, schema_text(stored.types[name]), schema_text(now)) + (f" ({why})" if why else "")
        for name, now in wanted.types.items()
        if name in stored.types and (why := _obstacle(stored, name, now)) is not None
    ]
    return facts + ([] if sides is None else [sides]) + types


def _obstacle(stored: StateSchema, name: str, wanted: TypeSchema) -> str | None:
    """What keeps values of a name from being read as the wanted type; None where nothing does."""
    before = stored.types[name]
    form = stored.facts.get(name.removeprefix("values of "), "")
    # Items of other types are told from encoded ones where a list is read; these cannot be.
    if form in ("list", "list, with ttl") and (before.schema == "bytes") != (wanted.schema == "bytes"):
        return "items of the type bytes are kept as they are, others encoded"
    return obstacle(wanted, before)


def undeclared(stored: StateSchema, wanted: StateSchema) -> list[str]:
    """What a processor has kept and does not declare any more: its states, and its timers in processing time."""
    return [name for name in stored.facts if name not in wanted.facts and name.startswith((STATE, CLOCK_TIMERS))]


def carried(stored: Mapping[str, StateSchema], wanted: Mapping[str, StateSchema]) -> dict[str, StateSchema]:
    """The records, by operator, of state of which a run has read the `stored` ones and goes on with the `wanted` ones.

    What runs have left is still there: operators, states of a processor and fields that are gone may come back, and
    are compared then.
    """
    return {**stored, **{name: _merged(stored[name], now) if name in stored else now for name, now in wanted.items()}}


def _merged(stored: StateSchema, wanted: StateSchema) -> StateSchema:
    if differences(stored, wanted):
        return wanted
    types = {
        name: merged_types(stored.types[name], now) if name in stored.types else now
        for name, now in wanted.types.items()
    }
    return structs.replace(wanted, facts={**stored.facts, **wanted.facts}, types={**stored.types, **types})


def _changed(name: str, before: str, now: str) -> str:
    return f"{name}: was {before}, is {now}"


WHOLE_NAME = ", serde"
"""The end of a fact that has the whole name of a serde, of which another fact has what is before a colon."""
_SIDES = {f"{side} {how}" for side in ("left", "right") for how in (OWN, FROM, THROUGH)}


def _alike(fact: str) -> str:
    """A fact, without a difference in name alone: keys of the types int and INT64 are the same bytes."""
    return {"int64": "int"}.get(fact, fact.replace("map by int64", "map by int"))

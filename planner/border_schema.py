"""The schemas of intermediate streams: records that are kept with checkpoints, and compared before each run."""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from ..dsl.operators import Operator
from .descriptions import duration
from .flow import Flow, plain
from .kinds.state_facts import key_facts, row_facts, type_of_values
from .partial_aggregates import combining_reader, partial_reader
from .plan import Plan
from .state_schema import StateSchema, carried
from .stream_names import intermediate
from .type_inference import flows
from .type_schema import type_schema

PARTIALS = "partial aggregates"
"""The fact that says of what partial aggregates among the messages are."""
ACCUMULATOR = "accumulator"
"""The type of what these hold."""
NO_PARTIALS = "none"


class BorderSchema(Struct, frozen=True, kw_only=True):
    """What gives the records of an intermediate stream their meaning: the serdes and the types of keys and values, and
    of what partial aggregates are if there may be some.

    `number` counts the changes: of several records of a stream the one with the largest number is the last.
    """

    schema: StateSchema
    number: int = 1


def border_schemas(plan: Plan) -> dict[str, StateSchema]:
    """The schema of each intermediate stream, as the plan writes it.

    >>> pipeline = Pipeline("visits")
    >>> users = pipeline.stream("clicks", value=str).partition_by(str.upper, id="by-user", key_type=str)
    >>> users.send_to("users")
    >>> border_schemas(plan(pipeline))["visits-by-user"].facts
    {'key': 'str', 'values': 'str'}
    """
    return _schemas(plan, lambda border, flow: _of_partials(combining_reader(plan.pipeline, border, flow.value), flow))


def schemas_as_read(plan: Plan) -> dict[str, StateSchema]:
    """The schema of each intermediate stream, as the plan reads it: with the partial aggregates that it would take,
    if it takes any, whether it writes some or not."""

    def taken(border: str, flow: Flow) -> StateSchema:
        reader = partial_reader(plan.pipeline, border, flow.value)
        return _NONE_TAKEN if reader is None else _of_partials(reader, flow)

    return _schemas(plan, taken)


_NONE_TAKEN = StateSchema(kind="", facts={PARTIALS: NO_PARTIALS})


def _of_partials(reader: Operator | None, flow: Flow) -> StateSchema:
    """What partial aggregates for an operator are."""
    if reader is None:
        return StateSchema(kind="")
    accumulator = type_schema(reader.takes_partials.aggregate.state(plain(flow.value)))
    return StateSchema(kind="", facts={PARTIALS: _partial_form(reader)}, types={ACCUMULATOR: accumulator})


def _partial_form(reader: Operator) -> str:
    """What partial aggregates for an operator are of, as people read it: others would be of other messages to it."""
    partials = reader.takes_partials
    return f"{partials.aggregate.kind}() for {reader.id}, by {duration(partials.span)}"


def _schemas(plan: Plan, partials: Callable[[str, Flow], StateSchema]) -> dict[str, StateSchema]:
    known = flows(plan.pipeline)
    schemas: dict[str, StateSchema] = {}
    for border in plan.pipeline.borders:
        flow = known[border.id]
        keys = {} if flow.key is None else key_facts(flow.key)
        values = {name: type_schema(type_) for name, type_ in type_of_values("value", flow.value).items()}
        more = partials(border.id, flow)
        schemas[intermediate(plan.name, border.id)] = StateSchema(
            kind=border.kind,
            facts={**keys, **row_facts("values", flow.value), **more.facts},
            types={**values, **more.types},
        )
    return schemas


def next_border_schemas(plan: Plan, last: Mapping[str, BorderSchema]) -> dict[str, BorderSchema]:
    """The records of the intermediate streams of a plan once a run writes them, given the `last` ones. Records of the
    stream that were written before may still be there, so a record tells of these too."""
    records: dict[str, BorderSchema] = {}
    as_read = schemas_as_read(plan)
    for stream, schema in border_schemas(plan).items():
        before = last.get(stream)
        if before is None:
            records[stream] = BorderSchema(schema=schema)
            continue
        readable = _without_foreign_partials(before.schema, as_read[stream])
        merged = carried({stream: readable}, {stream: schema})[stream]
        records[stream] = before if merged == before.schema else BorderSchema(schema=merged, number=before.number + 1)
    return records


def _without_foreign_partials(stored: StateSchema, as_read: StateSchema) -> StateSchema:
    """A record without the partial aggregates that the plan would not take: where it runs, none are left."""
    if stored.facts.get(PARTIALS) == as_read.facts[PARTIALS]:
        return stored
    facts = {name: fact for name, fact in stored.facts.items() if name != PARTIALS}
    types = {name: type_ for name, type_ in stored.types.items() if name != ACCUMULATOR}
    return structs.replace(stored, facts=facts, types=types)

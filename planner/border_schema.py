"""The schemas of intermediate streams: records that are kept with checkpoints, and compared before each run."""

from collections.abc import Mapping

from msgspec import Struct

from .kinds.state_facts import key_facts, row_facts, type_of_values
from .plan import Plan
from .state_schema import StateSchema, carried
from .stream_names import intermediate
from .type_inference import flows
from .type_schema import type_schema


class BorderSchema(Struct, frozen=True, kw_only=True):
    """What gives the records of an intermediate stream their meaning: the serdes and the types of keys and values.

    `number` counts the changes: of several records of a stream the one with the largest number is the last.
    """

    schema: StateSchema
    number: int = 1


def border_schemas(plan: Plan) -> dict[str, StateSchema]:
    """The schema of each intermediate stream, as the plan writes and reads it.

    >>> pipeline = Pipeline("visits")
    >>> users = pipeline.stream("clicks", value=str).partition_by(str.upper, id="by-user", key_type=str)
    >>> users.send_to("users")
    >>> border_schemas(plan(pipeline))["visits-by-user"].facts
    {'key': 'str', 'values': 'str'}
    """
    known = flows(plan.pipeline)
    schemas: dict[str, StateSchema] = {}
    for border in plan.pipeline.borders:
        flow = known[border.id]
        keys = {} if flow.key is None else key_facts(flow.key)
        schemas[intermediate(plan.name, border.id)] = StateSchema(
            kind=border.kind,
            facts={**keys, **row_facts("values", flow.value)},
            types={name: type_schema(type_) for name, type_ in type_of_values("value", flow.value).items()},
        )
    return schemas


def next_border_schemas(plan: Plan, last: Mapping[str, BorderSchema]) -> dict[str, BorderSchema]:
    """The records of the intermediate streams of a plan once a run writes them, given the `last` ones. Records of the
    stream that were written before may still be there, so a record tells of these too."""
    records: dict[str, BorderSchema] = {}
    for stream, schema in border_schemas(plan).items():
        before = last.get(stream)
        if before is None:
            records[stream] = BorderSchema(schema=schema)
            continue
        merged = carried({stream: before.schema}, {stream: schema})[stream]
        records[stream] = before if merged == before.schema else BorderSchema(schema=merged, number=before.number + 1)
    return records

"""What is written down of the streams between stages, and how it grows."""

from datetime import timedelta
from typing import Any

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Plan, plan
from fluvial.planner.border_schema import ACCUMULATOR, PARTIALS, BorderSchema, border_schemas, next_border_schemas
from fluvial.planner.type_schema import type_schema

STREAM = "p-by"


def crossing(value: Any = int, key: Any = str) -> Plan:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=value)
    numbers.partition_by(lambda _: key(), id="by", key_type=key, value=value).send_to("out")
    return plan(pipeline)


def test_a_border_has_the_types_of_its_keys_and_values() -> None:
    (schema,) = border_schemas(crossing()).values()
    assert schema.kind == "partition_by"
    assert schema.facts == {"key": "str", "values": "json"}


def test_a_broadcast_has_no_keys() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).broadcast(id="by", value=int).send_to("out")
    assert border_schemas(plan(pipeline))[STREAM].facts == {"values": "json"}


def test_the_first_record_has_the_number_one() -> None:
    assert next_border_schemas(crossing(), {}) == {STREAM: BorderSchema(schema=border_schemas(crossing())[STREAM])}


def test_a_record_without_changes_stays() -> None:
    first = next_border_schemas(crossing(), {})
    assert next_border_schemas(crossing(), first) == first


def test_a_change_is_counted() -> None:
    first = next_border_schemas(crossing(), {})
    second = next_border_schemas(crossing(value=str), first)
    assert (second[STREAM].number, second[STREAM].schema.facts["values"]) == (2, "str")


def test_partial_aggregates_are_described_with_their_window_and_the_type_of_accumulators() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str, value=int)
    numbers.window(tumbling(timedelta(minutes=1)), count(), id="minutes").map(lambda pane: pane.value).send_to("out")
    (schema,) = border_schemas(plan(pipeline)).values()
    assert schema.facts[PARTIALS] == "count() for minutes, by 1 min"
    assert schema.types[ACCUMULATOR] == type_schema(int)

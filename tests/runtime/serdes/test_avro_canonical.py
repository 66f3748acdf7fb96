"""Rows that are kept as bare records of Avro have one schema, whatever does not change what their bytes stand for."""

from typing import Any, TypedDict

import pytest

from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.planner.state_schema import StateSchema, differences
from fluvial.runtime.serdes import Registry, avro

PRICE, COUNT = {"name": "price", "type": "long"}, {"name": "count", "type": "long"}


class Row(TypedDict):
    price: int
    count: int


class Other(TypedDict):
    price: int


def record(*fields: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": list(fields), **others}


def table(schema: Any, **options: Any) -> StateSchema:
    """What gives the state of a table of such rows its meaning."""
    pipeline = Pipeline("p")
    pipeline.table("rows", key=str, value=avro(schema, **options)).changes().send_to("out")
    return plan(pipeline).stores[-1].schema


def of(kind: Any) -> dict[str, Any]:
    return record({"name": "x", "type": kind})


def symbols(*names: str) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(names)}


def logical(name: str, of: str = "long", **others: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **others}


@pytest.mark.parametrize(
    "now",
    [
        record({**PRICE, "doc": "in cents"}, COUNT, doc="a row"),
        record({**PRICE, "aliases": ["cost"], "default": 0}, COUNT),
        record({**PRICE, "type": {"type": "long"}}, COUNT),
    ],
)
def test_what_does_not_change_the_bytes(now: Any) -> None:
    assert differences(table(record(PRICE, COUNT)), table(now)) == []


def test_what_does() -> None:
    assert differences(table(record(PRICE, COUNT)), table(record(COUNT, PRICE))) == [
        "rows, schema: was Row(price: long, count: long), is Row(count: long, price: long)"
    ]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (symbols("A", "B"), symbols("B", "A"), "was Row(x: E[A, B]), is Row(x: E[B, A])"),
        ("long", "double", "was Row(x: long), is Row(x: double)"),
        (logical("timestamp-millis"), logical("timestamp-micros"), "long timestamp-millis), is Row(x: long timestamp"),
        (
            logical("decimal", "bytes", precision=9, scale=2),
            logical("decimal", "bytes", precision=9, scale=3),
            "was Row(x: bytes decimal 9 2), is Row(x: bytes decimal 9 3)",
        ),
        (["null", "long"], ["long", "null"], "was Row(x: null | long), is Row(x: long | null)"),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "was Row(x: array[int]), is Row(x: map["),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, "was Row(x: F[4])"),
    ],
)
def test_types_of_fields_count(before: Any, now: Any, told: str) -> None:
    (line,) = differences(table(of(before)), table(of(now)))
    assert told in line


def test_a_schema_may_refer_to_itself() -> None:
    assert table(of(["null", "Row"])).facts["rows, schema"] == "Row(x: null | Row)"


def test_the_class_that_records_become_may_change() -> None:
    schema = record(PRICE, COUNT)
    assert differences(table(schema, type=Row), table(schema, type=Other)) == []


def test_a_registry_knows_the_schemas_of_what_is_kept(registry: Registry) -> None:
    before = table(record(PRICE), registry=registry, subject="rows-value")
    assert differences(before, table(record(PRICE, COUNT), registry=registry, subject="rows-value")) == []
    assert differences(before, table(record(PRICE))) == ["rows, schema: was in a registry, is Row(price: long)"]

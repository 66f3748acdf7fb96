"""Messages as rows with typed columns."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from explained import assert_explains
from fluvial.dsl import MessageError, Pipeline, PipelineError
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.batch_report import BatchReport, Failure
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.output_columns import OutputColumns
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.rows import Row, arrow_batch, messages_of
from fluvial.runtime.spark.worker.outputs import as_rows, frame_rows, report_row
from fluvial.runtime.spark.worker.typed_rows import typed_rows


class Part(msgspec.Struct):
    sizes: dict[str, list[int]]


class Item(msgspec.Struct, omit_defaults=True):
    name: str
    at: datetime
    parts: list[Part] = []
    by_name: dict[str, Part] = {}
    first: Part | None = None
    stock: int = 7


PART = pa.struct([("sizes", pa.map_(pa.string(), pa.list_(pa.int64())))])
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("parts", pa.list_(PART)),
        ("by_name", pa.map_(pa.string(), PART)),
        ("first", PART),
        ("stock", pa.int64()),
    ]
)


def shipped(columns: OutputColumns) -> ShippedPlan:
    pipeline = Pipeline("items")
    pipeline.stream("in", value=str).send_to("out")
    made = plan(pipeline)
    bundle = PlanBundle(made, levels(made, list(made.stages), 1), KeyBuckets(1), Size(1, 1), frames={"out": columns})
    return pack(bundle)


def rows_of(columns: OutputColumns, records: Sequence[Record], *others: Row) -> list[dict[str, Any]]:
    rows = [*others, *frame_rows(messages_of("out", 0, range(len(records)), records), 0)]
    made = typed_rows(shipped(columns), "out")([arrow_batch(rows)])
    return [row for batch in made for row in batch.to_pylist(maps_as_pydicts="strict")]


AT = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)


def test_a_row_has_all_fields_of_its_record_defaults_and_maps_within_too() -> None:
    item = Item("tea", AT, [Part({"s": [1]})], {"box": Part({"m": [2, 3]})}, Part({}))
    (row,) = rows_of(OutputColumns(SCHEMA, Item), [(None, msgspec.json.encode(item), 0, ())])
    assert row == {
        "name": "tea",
        "at": AT,
        "parts": [{"sizes": {"s": [1]}}],
        "by_name": {"box": {"sizes": {"m": [2, 3]}}},
        "first": {"sizes": {}},
        "stock": 7,
    }


def test_a_message_without_a_value_is_a_row_of_nulls() -> None:
    (row,) = rows_of(OutputColumns(SCHEMA, Item), [(None, None, 0, ())])
    assert set(row.values()) == {None}


def test_key_and_time_have_columns_where_they_are_asked_for() -> None:
    schema = pa.schema([("value", pa.int64()), ("who", pa.int64()), ("seen", pa.timestamp("us", "UTC"))])
    columns = OutputColumns(schema, int, key_type=int, key="who", timestamp="seen")
    found = rows_of(columns, [((5).to_bytes(8, "big"), b"1", 1500, ()), (None, b"2", -500, ())])
    assert found == [
        {"value": 1, "who": 5, "seen": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)},
        {"value": 2, "who": None, "seen": datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)},
    ]


def test_what_is_outside_of_a_range_is_left_out() -> None:
    columns = OutputColumns(pa.schema([("value", pa.int64())]), int)
    records: list[Record] = [(key, b"%d" % time, time, ()) for time in range(4) for key in (b"a", b"b")]
    assert [row["value"] for row in rows_of(columns.of_range((1, 3), None), records)] == [1, 1, 2, 2]
    assert [row["value"] for row in rows_of(columns.of_range((1, 3), frozenset({b"a"})), records)] == [1, 2]
    assert rows_of(columns.of_range((7, 9), None), records) == []


def test_other_rows_are_passed_over_and_a_failure_is_raised() -> None:
    columns = OutputColumns(pa.schema([("value", pa.int64())]), int)
    other = as_rows(messages_of("other", 0, [0], [(None, b"x", 0, ())]), 0, 0)
    typed = frame_rows(messages_of("another", 0, [0], [(None, b"x", 0, ())]), 0)
    assert rows_of(columns, [(None, b"1", 0, ())], *other, *typed, report_row(0, BatchReport())) == [{"value": 1}]
    failed = report_row(0, BatchReport(failure=Failure("MessageError", "it failed", "trace")))
    with pytest.raises(MessageError, match="it failed"):
        rows_of(columns, [(None, b"1", 0, ())], failed)


def test_a_value_of_another_type_says_what_to_do() -> None:
    with pytest.raises(PipelineError) as raised:
        rows_of(OutputColumns(SCHEMA, Item), [(None, b'{"name": 3}', 0, ())])
    assert_explains(raised.value, "a message of stream 'out' cannot be made a row", None, "the type", "value=")


@pytest.mark.parametrize(
    ("type_", "arrow", "data", "shown"),
    [
        (int, pa.int64(), b"99999999999999999999", "99999999999999999999"),
        (Decimal, pa.decimal128(38, 18), b'"1e30"', "Decimal('1E+30')"),
    ],
)
def test_a_value_that_fits_no_column_is_named(type_: Any, arrow: pa.DataType, data: bytes, shown: str) -> None:
    columns = OutputColumns(pa.schema([("value", arrow)]), type_)
    with pytest.raises(PipelineError) as raised:
        rows_of(columns, [(None, b"1", 0, ()), (None, data, 0, ())])
    assert_explains(raised.value, f"does not fit the column 'value' of type {arrow}", None, "fit the column", "map it")
    assert f"it is {shown}" in str(raised.value)


def test_a_time_that_no_column_holds_is_named() -> None:
    schema = pa.schema([("value", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(PipelineError, match="column 'at'"):
        rows_of(OutputColumns(schema, int, timestamp="at"), [(None, b"1", 2**62, ())])

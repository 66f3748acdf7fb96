"""The columns of the DataFrames that a run writes, by the types that the plan knows of its streams."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from ....dsl.annotations import UNKNOWN
from ....dsl.errors import PlanError
from ....dsl.serde import Serde, encode_key, type_name
from ....dsl.validation import explain
from ....planner.flow import plain
from ....planner.plan import Plan
from ...data_frames.bindings import Backfill, DataFrameOutput, DataFrames
from ...data_frames.columns import checked_columns, ddl
from ...data_frames.plan_columns import written_flows, written_types
from ..lowering.output_columns import OutputColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..lowering.shipped_plan import ShippedPlan

_KEYS: Mapping[Any, t.DataType] = {str: t.StringType(), bytes: t.BinaryType(), int: t.LongType()}
_NAMES = re.compile("(`(?:[^`]|``)*`)")
"""A quoted name in a schema."""
_TIMESTAMP = re.compile(r"\btimestamp\b")
_ARROW: Mapping[type[t.DataType], pa.DataType] = MappingProxyType(
    {
        t.BooleanType: pa.bool_(),
        t.LongType: pa.int64(),
        t.DoubleType: pa.float64(),
        t.StringType: pa.string(),
        t.BinaryType: pa.binary(),
        t.TimestampType: pa.timestamp("us", "UTC"),
        t.DateType: pa.date32(),
    }
)
"""The types of columns as Arrow has them; the others are made of these."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The schema of a DataFrame, for Spark, and what a worker needs to know to make its rows."""

    schema: t.StructType
    columns: OutputColumns


def output_schemas(plan: Plan, frames: DataFrames) -> dict[str, OutputSchema]:
    """The schema of each DataFrame that a run writes, by stream. Raises PlanError where the type of a stream's values
    is not known, and UnsupportedError where it has no columns."""
    return {stream: output_schema(plan, stream, output, frames.backfill) for stream, output in frames.outputs.items()}


def output_schema(plan: Plan, stream: str, output: DataFrameOutput, backfill: Backfill | None = None) -> OutputSchema:
    """The schema of the DataFrame of one stream."""
    value = _value_type(plan, stream, output)
    what, remedy = f"the output {stream!r}", "map to such a type before send_to"
    type_ = plain(value)
    schema = parsed_schema(ddl(checked_columns(what, type_, remedy)))
    key_type: Any = None
    for name, kind in ((output.key, "key"), (output.timestamp, "timestamp")):
        if name is None:
            continue
        if name.lower() in map(str.lower, schema.names):
            wrong = f"{what}: {kind}={name!r}, which is a field of {type_name(type_)}"
            raise PlanError(explain(wrong, "the name of a new column", f"choose another, such as {kind}='_{kind}'"))
        if kind == "key":
            key_type = _key_type(plan, stream)
        added = t.TimestampType() if kind == "timestamp" else _KEYS[key_type]
        schema = t.StructType([*schema.fields, t.StructField(name, added)])
    arrow = pa.schema([(field.name, _arrow(field.dataType)) for field in schema.fields])
    columns = OutputColumns(arrow, value, key_type, output.key, output.timestamp)
    return OutputSchema(schema, columns if backfill is None else _within(columns, backfill))


def parsed_schema(text: str) -> t.StructType:
    """The schema that a text of Spark's SQL means."""
    parts = _NAMES.split(text)
    # The plain word may mean one without a zone: that is a setting of a session.
    parts[::2] = [_TIMESTAMP.sub("timestamp_ltz", part) for part in parts[::2]]
    schema = t.StructType.fromDDL("".join(parts))
    assert isinstance(schema, t.StructType)
    return schema


def _arrow(type_: t.DataType) -> pa.DataType:
    """The type of a column as Arrow has it."""
    if isinstance(type_, t.ArrayType):
        return pa.list_(_arrow(type_.elementType))
    if isinstance(type_, t.MapType):
        return pa.map_(_arrow(type_.keyType), _arrow(type_.valueType))
    if isinstance(type_, t.StructType):
        return pa.struct([(field.name, _arrow(field.dataType)) for field in type_.fields])
    if isinstance(type_, t.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type(type_)]


def _within(columns: OutputColumns, backfill: Backfill) -> OutputColumns:
    keys = None if backfill.keys is None else frozenset(map(encode_key, backfill.keys))
    return columns.of_range(backfill.range, keys)


def _value_type(plan: Plan, stream: str, output: DataFrameOutput) -> Any:
    """The type of a stream's values, or their Serde."""
    if output.value is not None:
        return output.value
    types = written_types(plan, stream)
    if len(types) != 1 or types[0] is UNKNOWN:
        names = " and ".join(
            "values of a type that is not known" if one is UNKNOWN else type_name(plain(one)) for one in types
        )
        remedy = "pass DataFrameOutput(..., value=...); or annotate what the function of the last map returns"
        at = plan.pipeline.operator(plan.stream(stream).written_by[0]).origin
        raise PlanError(explain(f"the output {stream!r} has {names}", "one type, whose fields are columns", remedy, at))
    return types[0]


def _key_type(plan: Plan, stream: str) -> Any:
    """The type of the keys of a stream's messages; bytes where it is not known or has no column."""
    keys = {flow.key for flow in written_flows(plan, stream)}
    key = keys.pop() if len(keys) == 1 else bytes
    return bytes if isinstance(key, Serde) or key not in _KEYS else key


def typed_frame(rows: "DataFrame", shipped: "ShippedPlan", stream: str, schema: OutputSchema) -> "DataFrame":
    """The messages of a stream, in the rows that leave a query, as rows with typed columns."""
    from ..worker.typed_rows import typed_rows  # noqa: PLC0415 - loads the kernel's serdes

    return rows.select("level", "block").mapInArrow(typed_rows(shipped, stream), schema.schema)

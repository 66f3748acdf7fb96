"""From the columns of a DataFrame to messages: which expression of Spark's SQL makes each part of a message.

A value travels as the stream's serde reads it. That of a record is JSON, which Spark's own `to_json` writes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import types as t

from ....dsl.errors import PlanError
from ....dsl.operators import Source
from ....dsl.serde import Serde, type_name
from ....dsl.validation import explain
from ...data_frames.bindings import DataFrameInput
from ...data_frames.columns import VALUE, Column, checked_columns, columns_of, is_record, quoted
from .output_schema import parsed_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY, TIMESTAMP = "key", "timestamp"
"""The columns that are taken for the key and the time of messages where nothing else is said."""

_JSON = "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', {iso}, 'timestampNTZFormat', {plain})"
_ISO = "yyyy-MM-dd''T''HH:mm:ss.SSSSSSXXX"
_OPTIONS = _JSON.format(
    iso=f"'{_ISO}'".replace("''", "\\'"), plain=f"'{_ISO.removesuffix('XXX')}'".replace("''", "\\'")
)


@dataclass(frozen=True, slots=True)
class InputExpressions:
    """The expressions of the parts of a message, as SQL: a `value` of bytes, a `key` of the key's own type, None for
    messages without keys, and a `time` in ms since epoch."""

    value: str
    key: str | None
    time: str

    @property
    def selected(self) -> list[str]:
        """The expressions that select the columns `value`, `time` and `key`."""
        return [f"{self.value} AS `value`", f"{self.time} AS `time`", f"{self.key or 'NULL'} AS `key`"]


def input_expressions(source: Source, given: DataFrameInput, *, timed: bool = True) -> InputExpressions:
    """How the columns of a DataFrame become messages of a source, which need no time unless they are `timed`. Raises
    PlanError where they cannot."""
    frame = _Frame(source, given)
    expressions = InputExpressions(frame.value(), frame.key(), frame.time(timed=timed))
    frame.check(expressions)
    return expressions


class _Frame:
    """A DataFrame that is read as a source."""

    def __init__(self, source: Source, given: DataFrameInput) -> None:
        self._source, self._given = source, given
        self._types = self._columns()
        self._any_case = given.frame.sparkSession.conf.get(_CASE) != "true"

    def _columns(self) -> dict[str, t.DataType]:
        """The types of the columns, by name."""
        try:
            fields = self._given.frame.schema.fields
        except PySparkException as error:
            raise self._error(f"Spark cannot read it: {_reason(error)}", "a DataFrame", "correct it") from error
        return {field.name: field.dataType for field in fields}

    def check(self, found: InputExpressions) -> None:
        """Raise PlanError if Spark cannot select these expressions together."""
        try:
            self._given.frame.selectExpr(*found.selected).schema  # noqa: B018 - by which Spark looks at them
        except PySparkException as error:
            expected = "columns, and expressions that make one value of each row"
            raise self._error(f"Spark cannot select its columns: {_reason(error)}", expected, "correct them") from error

    def _column(self, name: str) -> str | None:
        """The column of a name; where case does not count for Spark, in whatever case. None if there is none."""
        if name in self._types:
            return name
        same = (column for column in self._types if column.lower() == name.lower())
        return next(same, None) if self._any_case else None

    def value(self) -> str:
        declared = self._source.value
        raw = isinstance(declared, Serde) or declared in (bytes, str)
        if raw or self._is_encoded(declared):
            return self._raw()
        what = f"the DataFrame of stream {self._source.stream!r}"
        columns = checked_columns(what, declared, "pass encoded messages in a column 'value'")
        if not is_record(declared):
            return self._single(columns[0])
        expressions = list(self._fields(columns))
        return f"cast(to_json(named_struct({', '.join(expressions)}), {_OPTIONS}) as binary)"

    def _is_encoded(self, declared: Any) -> bool:
        """Whether the DataFrame has encoded messages: bytes in a column `value` that is no field."""
        if not isinstance(self._types.get(self._column(VALUE) or ""), t.BinaryType) or VALUE in self._given.columns:
            return False
        return not is_record(declared) or VALUE not in {column.name for column in columns_of(declared)}

    def _raw(self) -> str:
        expression, have = self._found(VALUE, f"stream({self._source.stream!r}, value=...) needs encoded values")
        if not isinstance(have, t.BinaryType | t.StringType):
            raise self._wrong(VALUE, have, "binary or string")
        return f"cast({expression} as binary)"

    def _single(self, column: Column) -> str:
        expression, have = self._found(VALUE, "values that are no records are in a column of their own")
        converted = self._converted(expression, have, _parsed(column.type), VALUE)
        if column.type.startswith(("array", "map", "struct")):
            return f"cast(to_json({converted}, {_OPTIONS}) as binary)"
        if column.type in ("bigint", "double", "boolean"):
            return f"cast(cast({converted} as string) as binary)"
        raise self._wrong(VALUE, have, f"records, whose fields are columns: {column.type} is none")

    def _fields(self, columns: tuple[Column, ...]) -> Iterator[str]:
        names = {column.name for column in columns}
        for name in self._given.columns:
            if name not in names:
                wrong = f"columns= names {name!r}, where {type_name(self._source.value)} has {', '.join(names)}"
                raise self._error(wrong, "a field of the type of values", "correct the name")
        for column in columns:
            if self._column(column.name) is None and column.name not in self._given.columns:
                if not column.required:
                    continue
                wrong = f"no column for the field {column.name!r} of {type_name(self._source.value)}"
                remedy = f"select one, or say which: DataFrameInput(frame, columns={{{column.name!r}: '...'}})"
                raise self._error(wrong, f"a column {column.name} {column.type}", remedy)
            expression, have = self._found(column.name, "")
            yield f"{_text(column.name)}, {self._converted(expression, have, _parsed(column.type), column.name)}"

    def key(self) -> str | None:
        declared = self._source.key
        if declared is None:
            if self._given.key is not None:
                wrong = f"key={self._given.key!r}, where the stream has no keys"
                raise self._error(wrong, "a stream with keys", f"write stream({self._source.stream!r}, key=str)")
            return None
        column = self._column(KEY) or ""
        if self._given.key is None and not column:
            wrong = f"no column 'key', where the stream has keys of type {type_name(declared)}"
            raise self._error(wrong, "a column of the key", "say which: DataFrameInput(frame, key='...')")
        expression, have = self._typed(self._given.key) if self._given.key else (quoted(column), self._types[column])
        if isinstance(declared, Serde):
            return self._key_as(expression, have, t.BinaryType())
        wanted = {str: t.StringType(), bytes: t.BinaryType(), int: t.LongType()}.get(declared)
        if wanted is None:
            raise self._error(
                f"keys of type {type_name(declared)}", "str, bytes or int", "make the key in partition_by"
            )
        return self._key_as(expression, have, wanted)

    def _key_as(self, expression: str, have: t.DataType, wanted: t.DataType) -> str:
        # Kafka's own source has keys as bytes, which are text as UTF-8.
        if isinstance(have, t.BinaryType) and isinstance(wanted, t.StringType):
            return f"cast({expression} as string)"
        return self._converted(expression, have, wanted, KEY)

    def time(self, *, timed: bool) -> str:
        column = self._column(TIMESTAMP)
        if self._given.timestamp is not None:
            expression, have = self._typed(self._given.timestamp)
        elif column is not None and not (self._source.timestamp and not _is_time(self._types[column])):
            expression, have = quoted(column), self._types[column]
        elif self._source.timestamp is not None or not timed:
            return "0L"  # the stream's own function finds the time, or rows of a table have none
        else:
            expected = "a column of each message's time"
            remedy = "say which: DataFrameInput(frame, timestamp='...'); or declare stream(..., timestamp=...)"
            raise self._error("no column 'timestamp'", expected, remedy)
        if _is_time(have):
            return _millis(expression, have)
        if isinstance(have, t.IntegralType):
            return f"cast({expression} as bigint)"
        raise self._wrong(self._given.timestamp or TIMESTAMP, have, "a timestamp, a date, or ms since epoch")

    def _found(self, name: str, why: str) -> tuple[str, t.DataType]:
        """The expression of a field's column, and its type."""
        given = self._given.columns.get(name)
        if given is not None:
            return self._typed(given)
        column = self._column(name)
        if column is None:
            raise self._error(f"no column {name!r}; it has {', '.join(self._types)}", why, "select one of that name")
        return quoted(column), self._types[column]

    def _typed(self, expression: str) -> tuple[str, t.DataType]:
        """An expression of the user's, and its type."""
        try:
            selected: DataFrame = self._given.frame.selectExpr(f"({expression}) AS one")
            return f"({expression})", selected.schema.fields[0].dataType
        except PySparkException as error:
            wrong = f"{expression!r} cannot be selected: {_reason(error)}"
            raise self._error(wrong, "a column, or an expression of Spark's SQL", "correct it") from error

    def _converted(self, expression: str, have: t.DataType, want: t.DataType, path: str) -> str:
        """An expression whose JSON the type of values reads."""
        if isinstance(want, t.ArrayType) and isinstance(have, t.ArrayType):
            inner = self._converted("one", have.elementType, want.elementType, f"{path}[]")
            return expression if inner == "one" else f"transform({expression}, one -> {inner})"
        if isinstance(want, t.MapType) and isinstance(have, t.MapType) and isinstance(have.keyType, t.StringType):
            inner = self._converted("one", have.valueType, want.valueType, f"{path}[]")
            return expression if inner == "one" else f"transform_values({expression}, (name, one) -> {inner})"
        if isinstance(want, t.StructType) and isinstance(have, t.StructType):
            return self._converted_struct(expression, have, want, path)
        if isinstance(want, t.LongType) and _is_time(have):
            return _millis(expression, have)
        if any(isinstance(want, wanted) and isinstance(have, taken) for wanted, taken in _TAKEN):
            return expression
        raise self._wrong(path, have, want.simpleString())

    def _converted_struct(self, expression: str, have: t.StructType, want: t.StructType, path: str) -> str:
        there = {field.name: field.dataType for field in have.fields}
        parts: list[str] = []
        for field in want.fields:
            if field.name in there:
                inner = f"{expression}.{quoted(field.name)}"
                converted = self._converted(inner, there[field.name], field.dataType, f"{path}.{field.name}")
                parts.append(f"{_text(field.name)}, {converted}")
        return f"if({expression} IS NULL, NULL, named_struct({', '.join(parts)}))"

    def _wrong(self, path: str, have: t.DataType, expected: str) -> PlanError:
        wrong = f"the column {path!r} is of type {have.simpleString()}"
        remedy = f"columns={{{path!r}: 'cast(... as ...)'}}"
        if path in (KEY, TIMESTAMP) or path == self._given.timestamp:
            remedy = f"{KEY if path == KEY else TIMESTAMP}='cast(... as ...)'"
        elif "." in path or "[" in path:
            field = path.replace("[", ".").partition(".")[0]
            remedy = f"columns={{{field!r}: '...'}}, with an expression that makes all of it anew"
        return self._error(wrong, expected, f"convert it: DataFrameInput(frame, {remedy})")

    def _error(self, wrong: str, expected: str, remedy: str) -> PlanError:
        text = f"the DataFrame of stream {self._source.stream!r}: {wrong}"
        return PlanError(explain(text, expected, remedy, self._source.origin))


_TAKEN: tuple[tuple[type[t.DataType], Any], ...] = (
    (t.LongType, t.IntegralType),
    (t.DoubleType, (t.FloatType, t.DoubleType, t.IntegralType)),
    (t.StringType, (t.StringType, t.CharType, t.VarcharType)),
    (t.BinaryType, t.BinaryType),
    (t.BooleanType, t.BooleanType),
    (t.TimestampType, (t.TimestampType, t.TimestampNTZType)),
    (t.DateType, t.DateType),
    (t.DecimalType, (t.DecimalType, t.IntegralType)),
)
"""The types of columns that are taken for a field, by the type that it has itself."""


_CASE = "spark.sql.caseSensitive"


def _text(name: str) -> str:
    """A text as SQL writes it."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _millis(expression: str, have: t.DataType) -> str:
    """A time in ms since epoch. One without a zone is in UTC, and so is a date, whatever the zone of the session."""
    if isinstance(have, t.TimestampType):
        return f"unix_millis({expression})"
    return f"timestampdiff(MILLISECOND, timestamp_ntz'1970-01-01 00:00:00', cast({expression} as timestamp_ntz))"


def _reason(error: PySparkException) -> str:
    """What Spark says, without the plan that it shows with it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(";") if lines else type(error).__name__


def _is_time(type_: t.DataType) -> bool:
    return isinstance(type_, t.TimestampType | t.TimestampNTZType | t.DateType)


def _parsed(text: str) -> t.DataType:
    return parsed_schema(f"`one` {text}").fields[0].dataType

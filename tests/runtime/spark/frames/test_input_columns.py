"""How the columns of DataFrames become messages: what is taken for which field, and what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, Serde, UnsupportedError
from fluvial.dsl.serde import value_serde
from fluvial.runtime import DataFrameInput

pytest.importorskip("pyspark", reason="the engine needs pyspark")
from fluvial.runtime.spark.frames.input_columns import InputExpressions, input_expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Place(msgspec.Struct, frozen=True):
    """Within an event."""

    seen: int
    names: list[str] = []


class Event(msgspec.Struct, frozen=True):
    """A value with fields of all kinds."""

    user: str
    at: int
    when: datetime
    day: date
    price: Decimal
    ratio: float
    data: bytes
    good: bool
    place: Place
    places: list[Place]
    by_name: dict[str, Place]
    note: str | None
    usual: int = 7


AT = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
ROW = """
    'ann' AS user, timestamp'2026-03-01 12:30:00.123456 UTC' AS at, timestamp'2026-03-01 12:30:00.123456 UTC' AS when,
    date'2026-03-01' AS day, cast(1.50 AS decimal(10, 2)) AS price, cast(2 AS int) AS ratio, X'0102' AS data,
    true AS good, named_struct('seen', date'2026-03-01', 'names', array('a'), 'more', 1) AS place,
    array(named_struct('seen', cast(5 AS smallint))) AS places,
    map('x', named_struct('seen', timestamp_ntz'2026-03-01 12:30:00')) AS by_name,
    cast(NULL AS string) AS note, 'left out' AS other
"""


def source(value: Any, **options: Any) -> Any:
    pipeline = Pipeline("p")
    pipeline.stream("events", value=value, **options).send_to("out")
    return pipeline.sources[0]


def mapped(frame: "DataFrame", value: Any, *, given: dict[str, Any] | None = None, **options: Any) -> InputExpressions:
    return input_expressions(source(value, **options), DataFrameInput(frame, **(given or {})))


def messages(frame: "DataFrame", found: InputExpressions) -> list[Any]:
    return [tuple(row) for row in frame.selectExpr(*found.selected).collect()]


def time_of(event: Any) -> int:
    return int(event.at)


def test_each_kind_of_column_becomes_what_the_type_reads(spark: "SparkSession") -> None:
    frame = spark.sql(f"SELECT {ROW}")
    ((value, time, key),) = messages(frame, mapped(frame, Event, timestamp=time_of))
    assert (time, key) == (0, None)
    assert value_serde(Event).decode(bytes(value)) == Event(
        "ann",
        1772368200123,
        AT,
        date(2026, 3, 1),
        Decimal("1.50"),
        2.0,
        b"\x01\x02",
        True,
        Place(1772323200000, ["a"]),
        [Place(5)],
        {"x": Place(1772368200000)},
        None,
    )


def test_fields_come_from_the_columns_and_expressions_that_are_named(spark: "SparkSession") -> None:
    frame = spark.sql("SELECT named_struct('id', 'bob') AS cookies, 3 AS x")
    given = {"columns": {"seen": "x * 2", "names": "array(cookies.id)"}, "timestamp": "x"}
    ((value, time, _),) = messages(frame, mapped(frame, Place, given=given))
    assert (msgspec.json.decode(bytes(value), type=Place), time) == (Place(6, ["bob"]), 3)


@pytest.mark.parametrize(
    ("type_", "column", "encoded"),
    [
        (int, "5L", b"5"),
        (float, "1.5D", b"1.5"),
        (bool, "true", b"true"),
        (list[int], "array(1, 2)", b"[1,2]"),
        (dict[str, int], "map('a', 1)", b'{"a":1}'),
        (str, "'tea'", b"tea"),
        (bytes, "X'00'", b"\0"),
        (Serde("hex", int, lambda n: b"%x" % n, lambda data: int(data, 16)), "'ff'", b"ff"),
        (Place, "X'7b7d'", b"{}"),
    ],
)
def test_what_is_no_record_or_is_encoded_is_in_the_column_value(
    spark: "SparkSession", type_: Any, column: str, encoded: bytes
) -> None:
    frame = spark.sql(f"SELECT {column} AS value, timestamp_millis(7) AS timestamp")
    assert [(bytes(value), time) for value, time, _ in messages(frame, mapped(frame, type_))] == [(encoded, 7)]


@pytest.mark.parametrize(
    ("type_", "column", "key"),
    [(str, "'ann'", "ann"), (int, "3", 3), (bytes, "X'00'", b"\0"), (str, "X'616e6e'", "ann")],
)
def test_keys_are_of_the_type_of_the_stream(spark: "SparkSession", type_: Any, column: str, key: Any) -> None:
    frame = spark.sql(f"SELECT 5L AS value, timestamp_millis(7) AS timestamp, {column} AS key, {column} AS other")
    for given in ({}, {"key": "other"}):
        ((_, __, found),) = messages(frame, mapped(frame, int, given=given, key=type_))
        assert found == key


@pytest.mark.parametrize(
    ("columns", "given", "options", "wrong", "remedy"),
    [
        ("1 AS seen", {}, {}, "no column 'timestamp'", "timestamp="),
        ("'x' AS seen, 1 AS timestamp", {}, {}, "the column 'seen' is of type string", "cast"),
        ("array('x') AS names, 1 AS timestamp", {}, {}, "no column for the field 'seen'", "columns="),
        ("1 AS seen, array(1) AS names, 1 AS timestamp", {}, {}, "the column 'names[]' is of type int", "anew"),
        ("1 AS seen, 'x' AS timestamp", {}, {}, "the column 'timestamp' is of type string", "cast"),
        ("1 AS seen, 1 AS timestamp", {"columns": {"x": "seen"}}, {}, "columns= names 'x'", "correct"),
        ("1 AS seen, 1 AS timestamp", {"columns": {"seen": "nope"}}, {}, "'nope' cannot be selected", "correct"),
        ("1 AS seen, 1 AS timestamp", {"key": "seen"}, {}, "key='seen', where the stream has no keys", "key=str"),
        ("1 AS seen, 1 AS timestamp", {}, {"key": str}, "no column 'key'", "key="),
        ("1 AS seen, 1 AS timestamp, 1 AS key", {}, {"key": str}, "the column 'key' is of type int", "cast"),
        ("1 AS seen, 1 AS timestamp, 1 AS key", {}, {"key": tuple[str, int]}, "keys of type tuple", "partition_by"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    spark: "SparkSession", columns: str, given: dict[str, Any], options: dict[str, Any], wrong: str, remedy: str
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    raised = error_of(lambda: mapped(frame, Place, given=given, **options), PlanError)
    assert_explains(raised, wrong, source, "", remedy, below=2)


@pytest.mark.parametrize(
    ("type_", "column", "error", "wrong"),
    [
        (int, "1 AS other", PlanError, "no column 'value'; it has other, timestamp"),
        (bytes, "1 AS value", PlanError, "the column 'value' is of type int"),
        (datetime, "timestamp_millis(1) AS value", PlanError, "the column 'value' is of type timestamp"),
        (int | str, "1 AS value", UnsupportedError, "have no columns: value: a union of several types"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(
    spark: "SparkSession", type_: Any, column: str, error: type[Any], wrong: str
) -> None:
    frame = spark.sql(f"SELECT {column}, 1 AS timestamp")
    assert wrong in str(error_of(lambda: mapped(frame, type_), error))


def test_times_without_a_zone_and_dates_are_in_utc_whatever_the_session_s_zone(spark: "SparkSession") -> None:
    there = spark.newSession()
    there.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = there.sql("SELECT date'2026-03-01' AS seen, timestamp_ntz'2026-03-01 12:30:00' AS timestamp")
    ((value, time, _),) = messages(frame, mapped(frame, Place))
    assert (msgspec.json.decode(bytes(value), type=Place).seen, time) == (1772323200000, 1772368200000)


def test_case_does_not_count_where_it_does_not_for_spark(spark: "SparkSession") -> None:
    there = spark.newSession()
    frame = there.sql("SELECT 5 AS SEEN, array('a') AS Names, 7L AS `Timestamp`")
    ((value, time, _),) = messages(frame, mapped(frame, Place))
    assert (msgspec.json.decode(bytes(value), type=Place), time) == (Place(5, ["a"]), 7)
    there.conf.set("spark.sql.caseSensitive", "true")
    assert "no column for the field 'seen'" in str(error_of(lambda: mapped(frame, Place), PlanError))


class Quoted(msgspec.Struct, frozen=True):
    """A field whose name has to be quoted."""

    its: int = msgspec.field(name="it's `odd`")


def test_any_name_may_be_a_field_s(spark: "SparkSession") -> None:
    frame = spark.range(1).selectExpr("5 AS `it's ``odd```", "1 AS timestamp")
    ((value, _, __),) = messages(frame, mapped(frame, Quoted))
    assert msgspec.json.decode(bytes(value), type=Quoted) == Quoted(5)


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        ("1 AS seen, 2 AS SEEN, 1 AS timestamp", {}),
        ("1 AS x, 1 AS timestamp", {"columns": {"seen": "count(1)"}}),
        ("array(1) AS xs, 1 AS timestamp", {"columns": {"seen": "explode(xs)"}}),
    ],
)
def test_what_spark_cannot_select_is_refused_in_our_words(
    spark: "SparkSession", columns: str, given: dict[str, Any]
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    raised = error_of(lambda: mapped(frame, Place, given=given), PlanError)
    assert "the DataFrame of stream 'events'" in str(raised)

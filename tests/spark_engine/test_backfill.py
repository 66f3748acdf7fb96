"""A part of the outputs written anew: the windows of a range of time, of some keys."""

import shutil
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from fluvial.dsl import Pane, Pipeline, count, session
from fluvial.planner import Settings
from fluvial.runtime import Backfill, DataFrameInput, DataFrameOutput, run, to_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

HOUR = timedelta(hours=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = [FIRST + timedelta(days=number) for number in range(4)]
SMALL = Settings(spark_buckets=2)


class Visit(msgspec.Struct, frozen=True):
    """A session, and the day on which it ended."""

    user: str
    end: datetime
    day: str
    clicks: int


def to_visit(pane: Pane[str, int]) -> Visit:
    end = datetime.fromtimestamp((pane.window.end - 1) / 1000, UTC)
    return Visit(pane.key, end, f"{end:%Y-%m-%d}", pane.value)


def visits(*, reads_time: bool) -> Pipeline:
    """Sessions with a gap of an hour; of messages whose time is in a column, or found by a function."""
    pipeline = Pipeline("visits")
    if reads_time:
        clicks = pipeline.stream("clicks", key=str, value=int)
    else:
        clicks = pipeline.stream("clicks", key=str, value=int, timestamp=lambda minutes: at(minutes))
    clicks.window(session(HOUR), count(), id="sessions").map(to_visit).send_to("visits", key=user_of)
    return pipeline


def at(minutes: int) -> int:
    return int(FIRST.timestamp()) * 1000 + minutes * 60_000


def user_of(visit: Visit) -> str:
    return visit.user


def clicks_of(spark: "SparkSession", days: int = 4) -> DataFrameInput:
    """Clicks of two users, now and then an hour apart, also around midnight."""
    minutes = [number * 25 + (number % 7) * 10 for number in range(days * 24 * 60 // 27)]
    rows = [
        (f"u{number % 2}", value, datetime.fromtimestamp(at(value) / 1000, UTC)) for number, value in enumerate(minutes)
    ]
    return DataFrameInput(
        spark.createDataFrame(rows, "user string, value long, seen timestamp"), key="user", timestamp="seen"
    )


def rows_of(folder: Path, spark: "SparkSession") -> Counter[Any]:
    return Counter(
        tuple(row) for row in spark.read.parquet(str(folder)).select("user", "end", "clicks", "day").collect()
    )


def to_folder(folder: Path) -> DataFrameOutput:
    """Writes days as folders, and overwrites those that it is given rows of."""

    def written(frame: "DataFrame", mode: str) -> None:
        frame.write.mode(mode).option("partitionOverwriteMode", "dynamic").partitionBy("day").parquet(str(folder))

    return DataFrameOutput(
        lambda frame, _: written(frame, "append"), overwrite=lambda frame, _: written(frame, "overwrite")
    )


@pytest.mark.parametrize("reads_time", [True, False])
def test_the_backfill_of_a_day_replaces_that_day_alone(
    spark: "SparkSession", tmp_path: Path, *, reads_time: bool
) -> None:
    pipeline, clicks, folder = visits(reads_time=reads_time), clicks_of(spark), tmp_path / "visits"
    outputs = {"visits": to_folder(folder)}
    run(pipeline, engine="spark", inputs={"clicks": clicks}, outputs=outputs, settings=SMALL)
    before = rows_of(folder, spark)
    other_days = {path.name: sorted(file.name for file in path.iterdir()) for path in folder.iterdir() if path.is_dir()}
    wrong = spark.createDataFrame([("u0", FIRST, 99)], "user string, end timestamp, clicks long")
    shutil.rmtree(folder / "day=2026-03-02")
    wrong.write.parquet(str(folder / "day=2026-03-02"))
    backfill = Backfill(DAYS[1], DAYS[2], lookback=timedelta(hours=12))
    report = run(
        pipeline, engine="spark", inputs={"clicks": clicks}, outputs=outputs, settings=SMALL, backfill=backfill
    )
    assert rows_of(folder, spark) == before
    del other_days["day=2026-03-02"]
    for day, files in other_days.items():
        assert sorted(file.name for file in (folder / day).iterdir()) == files
    assert 0 < report.read["clicks"] < clicks.frame.count() * 0.6


def chosen(spark: "SparkSession", keys: Collection[str] | None) -> Counter[Any]:
    backfill = Backfill(DAYS[1], DAYS[2], lookback=timedelta(hours=12), keys=keys)
    inputs = {"clicks": clicks_of(spark, 3)}
    frame = to_dataframe(visits(reads_time=True), "visits", inputs=inputs, backfill=backfill, settings=SMALL)
    return Counter(tuple(row) for row in frame.collect())


def test_other_keys_are_left_out(spark: "SparkSession") -> None:
    everybody, one = chosen(spark, None), chosen(spark, ["u1"])
    assert one == Counter({row: number for row, number in everybody.items() if row[0] == "u1"})
    assert one
    assert len(one) < len(everybody)


class Pair(msgspec.Struct, frozen=True):
    """A message with the row, or the other message, that it met."""

    one: int
    other: int | None


def to_pair(one: int, other: int | None) -> Pair:
    return Pair(one, other)


def sent_at(minutes: int) -> datetime:
    return FIRST + timedelta(minutes=minutes)


def test_rows_of_tables_are_read_whatever_their_time(spark: "SparkSession") -> None:
    pipeline = Pipeline("looked-up")
    table = pipeline.table("rows", key=str, value=int)
    pipeline.stream("numbers", key=str, value=int).join(table, to_pair, id="join").send_to("pairs", value=Pair)
    old = spark.createDataFrame([("k", 10, sent_at(-100_000))], "key string, value long, timestamp timestamp")
    new = spark.createDataFrame([("k", 1, sent_at(60))], "key string, value long, timestamp timestamp")
    inputs, day = {"rows": old, "numbers": new}, Backfill(DAYS[0], DAYS[1], lookback=HOUR)
    frame = to_dataframe(pipeline, "pairs", inputs=inputs, backfill=day, settings=SMALL)
    assert [tuple(row) for row in frame.collect()] == [(1, 10)]


def test_what_comes_behind_the_range_is_read_for_rows_that_wait(spark: "SparkSession") -> None:
    pipeline = Pipeline("waiting")
    left = pipeline.stream("left", key=str, value=int)
    joined = left.join(pipeline.stream("right", key=str, value=int), to_pair, within=HOUR, how="left", id="join")
    joined.send_to("pairs", value=Pair)
    schema = "key string, value long, timestamp timestamp"
    inputs = {
        "left": spark.createDataFrame([("k", 1, sent_at(24 * 60 - 30))], schema),
        "right": spark.createDataFrame([("k", 2, sent_at(24 * 60 + 10))], schema),
    }

    def of_day(number: int) -> list[Any]:
        day = Backfill(DAYS[number], DAYS[number + 1], lookback=2 * HOUR)
        frame = to_dataframe(pipeline, "pairs", inputs=inputs, backfill=day, settings=SMALL)
        return [tuple(row) for row in frame.collect()]

    assert (of_day(0), of_day(1)) == ([], [(1, 2)])


def test_rows_of_tables_need_no_time(spark: "SparkSession") -> None:
    pipeline = Pipeline("looked-up")
    table = pipeline.table("rows", key=str, value=int)
    pipeline.stream("numbers", key=str, value=int).join(table, to_pair, id="join").send_to("pairs", value=Pair)
    rows = spark.createDataFrame([("k", 10), ("other", 20)], "key string, value long")
    numbers = spark.createDataFrame([("k", 1, sent_at(60))], "key string, value long, timestamp timestamp")
    frame = to_dataframe(pipeline, "pairs", inputs={"rows": rows, "numbers": numbers}, settings=SMALL)
    assert [tuple(row) for row in frame.collect()] == [(1, 10)]

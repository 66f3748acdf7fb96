"""The number of tasks that keep state, and its change between runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import append, contents
from engines.targets import write as write_streams
from explained import error_of
from fluvial.dsl import Pipeline, UsageError, after_count, count, repeat, unbounded
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.query.checkpoint_log import DONE, last_batch, shuffle_partitions
from fluvial.runtime.spark.query.repartitioning import check_tasks
from fluvial.runtime.spark.query.session import session_for
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 300


@pytest.mark.parametrize(("tasks", "near"), [(3, "2 or 4"), (1000, "256 or 512"), (100, "64 or 128")])
def test_a_number_that_does_not_divide_the_buckets_is_refused_with_the_nearest(tasks: int, near: str) -> None:
    error = error_of(lambda: check_tasks(tasks, KeyBuckets(512), "p.py"), UsageError)
    assert f"set it to {near}" in str(error)


def test_earlier_checkpoints_take_any_number() -> None:
    check_tasks(3, KeyBuckets(8, balanced=False), "p.py")
    check_tasks(None, KeyBuckets(8), "p.py")


def counting() -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    counted = numbers.window(unbounded(), count(), id="w", trigger=repeat(after_count(1)))
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out")
    return pipeline


@pytest.mark.spark
@pytest.mark.long
def test_state_is_kept_whatever_the_number_of_tasks(tmp_path: Path, spark: "SparkSession") -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(f"k{number}".encode(), b"1", number, ()) for number in range(KEYS)]
    write_streams(system, {"in": [records]})
    seen: list[int | None] = []
    for tasks in (4, 2, None, 4):
        settings = Settings(spark_buckets=4, spark_shuffle_partitions=tasks)
        run(counting(), engine="spark", system=system, until="caught-up", settings=settings, spark=spark)
        (checkpoint,) = (tmp_path / "log" / "spark" / "p").glob("*/*/spark")
        seen.append(shuffle_partitions(checkpoint))
        append(system, "in", 0, records)
    assert seen == [4, 2, 2, 4]
    written = [msgspec.json.decode(value or b"") for _, value, _, _ in contents(system, "out")]
    assert sorted(written) == sorted(f"k{number} {times}" for number in range(KEYS) for times in (1, 2, 3, 4))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [pytest.param(None, marks=pytest.mark.long), 2])
def test_a_change_of_the_tasks_that_was_cut_off_is_ended_by_the_next_run(
    tmp_path: Path, spark: "SparkSession", caplog: pytest.LogCaptureFixture, tasks: int | None
) -> None:
    """Whatever number this run is told: Spark goes on with no query before."""
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(f"k{number}".encode(), b"1", number, ()) for number in range(KEYS)]
    write_streams(system, {"in": [records]})

    def once(tasks: int | None) -> None:
        settings = Settings(spark_buckets=16, spark_shuffle_partitions=tasks)
        run(counting(), engine="spark", system=system, until="caught-up", settings=settings, spark=spark)

    once(2)
    (checkpoint,) = (tmp_path / "log" / "spark" / "p").glob("*/*/spark")
    with session_for(spark) as session:
        session._streamingCheckpointManager.repartition(str(checkpoint), 8)
    for name in (str(last_batch(checkpoint, DONE)), f".{last_batch(checkpoint, DONE)}.crc"):
        (checkpoint / DONE / name).unlink(missing_ok=True)
    append(system, "in", 0, records)
    once(tasks)
    assert "was ended while state was distributed over 8 tasks" in caplog.text
    assert shuffle_partitions(checkpoint) == (8 if tasks is None else tasks)
    written = [msgspec.json.decode(value or b"") for _, value, _, _ in contents(system, "out")]
    assert sorted(written) == sorted(f"k{number} {times}" for number in range(KEYS) for times in (1, 2))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_512_buckets_are_kept_by_64_and_by_512_tasks(tmp_path: Path, spark: "SparkSession") -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(f"k{number}".encode(), b"1", number, ()) for number in range(5000)]
    write_streams(system, {"in": [records]})
    for tasks in (512, 64, 512):
        settings = Settings(spark_buckets=512, spark_shuffle_partitions=tasks)
        run(counting(), engine="spark", system=system, until="caught-up", settings=settings, spark=spark)
        (checkpoint,) = (tmp_path / "log" / "spark" / "p").glob("*/*/spark")
        assert shuffle_partitions(checkpoint) == tasks
        kept = spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", "pages").load()
        assert kept.select("partition_id").distinct().count() == tasks, "a task has no state"
        append(system, "in", 0, records)
    written = [msgspec.json.decode(value or b"") for _, value, _, _ in contents(system, "out")]
    assert sorted(written) == sorted(f"k{number} {times}" for number in range(5000) for times in (1, 2, 3))

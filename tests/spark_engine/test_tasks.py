"""All tasks that keep state have work, as Spark's own metrics of tasks say."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from fluvial.dsl import Pipeline, after_count, count, repeat, unbounded
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

BUCKETS = 512


def counting() -> Pipeline:
    """Tells each message of a key: nothing is to be done at the end."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    counted = numbers.window(unbounded(), count(), id="w", trigger=repeat(after_count(1)))
    counted.map(lambda pane: pane.value).send_to("out")
    return pipeline


def stages(spark: "SparkSession") -> list[Any]:
    """What Spark's status store, from which its UI and REST API read, says of the stages of this application."""
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    nothing = context._gateway.new_array(context._jvm.double, 0)
    found = context._jsc.sc().statusStore().stageList(None, False, False, nothing, context._jvm.java.util.ArrayList())
    return [found.apply(number) for number in range(found.size())]


def records_read(spark: "SparkSession", stage: Any) -> list[int]:
    """The records that each task of a stage has read from a shuffle."""
    context: Any = spark.sparkContext
    tasks = context._jsc.sc().statusStore().taskList(stage.stageId(), stage.attemptId(), stage.numTasks())
    return [tasks.apply(n).taskMetrics().get().shuffleReadMetrics().recordsRead() for n in range(tasks.size())]


def work(folder: Path, spark: "SparkSession", keys: int, tasks: int) -> list[int]:
    """Count messages of so many keys in one batch. Returns what each task that keeps state has read: the messages for a
    bucket are one record, and what was read from the source is told in another."""
    system = LogSystem(folder, fsync=False)
    records: list[Record] = [(f"k{number}".encode(), b"1", number, ()) for number in range(keys)]
    write(system, {"in": [records]})
    before = {stage.stageId() for stage in stages(spark)}
    settings = Settings(spark_buckets=BUCKETS, spark_shuffle_partitions=tasks)
    run(counting(), engine="spark", system=system, until="caught-up", settings=settings, spark=spark)
    assert len(contents(system, "out")) == keys
    new = [stage for stage in stages(spark) if stage.stageId() not in before and stage.numTasks() == tasks]
    return records_read(spark, max(new, key=lambda stage: int(stage.shuffleReadRecords())))


@pytest.mark.parametrize("tasks", [8, 64, 512])
def test_all_tasks_have_work(tmp_path: Path, spark: "SparkSession", tasks: int) -> None:
    read = work(tmp_path, spark, 20_000, tasks)
    assert len(read) == tasks
    assert min(read) >= BUCKETS // tasks
    assert sum(read) == BUCKETS + 1


def test_tasks_without_a_key_read_nothing(tmp_path: Path, spark: "SparkSession") -> None:
    read = work(tmp_path, spark, 1, 8)
    assert read.count(0) >= 6
    assert sum(read) == 1 + 1

"""A run on Spark is measured by the names of the local engine."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engines.targets import write
from fluvial.dsl import Pipeline, count, skip, tumbling
from fluvial.planner import Settings
from fluvial.runtime import Metrics, Progress, run
from fluvial.runtime.launch import EngineName
from fluvial.runtime.metrics.collector import families
from fluvial.runtime.metrics.definitions import BY_NAME, METRICS
from fluvial.runtime.report import Histogram, Sample
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

NUMBERS = [b"%d" % number for number in (*range(40), 90)] + [b"many"]


def even(number: int) -> bool:
    return number % 2 == 0


def tens() -> Pipeline:
    """Even numbers, counted by their last digit and by tens; one cannot be decoded."""
    pipeline = Pipeline("tens", on_error=skip())
    numbers = pipeline.stream("in", value=int, timestamp=lambda number: number).filter(even)
    keyed = numbers.partition_by(lambda number: number % 10, id="by-digit", key_type=int)
    windows = keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="tens")
    windows.map(lambda pane: pane.value).send_to("out")
    return pipeline


def measured(folder: Path, engine: EngineName, spark: "SparkSession | None" = None) -> Progress:
    """What a run says in the end."""
    system = LogSystem(folder, fsync=False)
    write(system, {"in": [[(None, number, 0, ()) for number in NUMBERS]]})
    told: list[Progress] = []
    with Metrics() as metrics:
        settings = Settings(spark_buckets=2)
        ends = {"system": system, "settings": settings, "until": "end", "spark": spark}
        run(tens(), engine=engine, metrics=metrics, progress=told.append, **ends)  # type: ignore[arg-type]
    return told[-1]


def known(progress: Progress) -> dict[tuple[str, ...], float]:
    """The counters that both engines have, but for commits: by measure, stream or operator, and reason."""
    found: dict[tuple[str, ...], float] = {}
    for fact in progress.facts:
        measure = BY_NAME[fact.metric]
        labels = dict(zip(measure.labels, fact.labels, strict=True))
        if measure.kind == "counter" and len(measure.engines) == 2 and measure.name != "commits":
            name = (measure.name, *(labels.get(label, "") for label in ("stage", "stream", "operator", "reason")))
            assert not isinstance(fact.value, Histogram)
            found[name] = found.get(name, 0) + fact.value
    return found


@pytest.fixture(scope="module")
def on_spark(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Progress:
    """What a run on Spark says in the end."""
    return measured(tmp_path_factory.mktemp("measured"), "spark", spark)


def test_both_engines_count_the_same(tmp_path: Path, on_spark: Progress) -> None:
    local = measured(tmp_path, "local")
    assert known(on_spark) == known(local)
    assert list(families(on_spark))


def test_spark_gives_all_that_the_table_says(on_spark: Progress) -> None:
    last = on_spark
    wanted = {measure.name for measure in METRICS if "spark" in measure.engines} - {"dead_letters"}
    assert {fact.metric for fact in last.facts} == wanted
    assert (last.phase, last.pipeline, last.engine, last.lag) == ("done", "tens", "spark", 0)
    assert Sample("committed_offset", len(NUMBERS), ("in", "", "in", "0")) in last.facts
    assert Sample("watermark_timestamp_seconds", 0.09, ("in", "", "in", "0")) in last.facts
    # A stream between stages has one watermark, whatever the number of tasks.
    assert Sample("watermark_timestamp_seconds", 0.09, ("tens-by-digit", "", "tens-by-digit", "")) in last.facts
    (batches,) = (fact.value for fact in last.facts if fact.metric == "batch_seconds")
    assert isinstance(batches, Histogram)
    assert sum(batches.counts) == next(fact.value for fact in last.facts if fact.metric == "commits")

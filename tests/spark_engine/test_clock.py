"""Processing time and idle inputs on Spark: windows close though nothing comes."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from waiting import wait_until

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from fluvial.dsl import Pipeline, SystemProblem, collect, tumbling
from fluvial.planner import Settings, plan
from fluvial.runtime import Progress, run
from fluvial.runtime.preflight.unsupported import caveats
from fluvial.runtime.spark.connectors.log_sink import LogSink
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECOND = timedelta(seconds=1)


def by_clock(size: timedelta = SECOND) -> Pipeline:
    pipeline = Pipeline("clock")
    words = pipeline.stream("words", key=str, value=str)
    words.window(tumbling(size), collect(), id="seconds", time="processing").send_to("out")
    return pipeline


def with_idle_partitions() -> Pipeline:
    pipeline = Pipeline("idle")
    words = pipeline.stream("words", value=str, idle_after=SECOND)
    keyed = words.partition_by(str, id="by-word", key_type=str)
    keyed.window(tumbling(SECOND), collect(), id="seconds").send_to("out")
    return pipeline


# By the clock they close in the next test, too.
@pytest.mark.parametrize("make", [pytest.param(by_clock, marks=pytest.mark.long), with_idle_partitions])
def test_windows_close_though_nothing_comes(
    make: Callable[[], Pipeline], tmp_path: Path, spark: "SparkSession"
) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": [[(b"a", b"a", 1000, ()), (b"a", b"a", 1001, ())], []]})
    patience = time.monotonic() + 120

    def stop_when_shown(progress: Progress) -> None:
        if progress.phase == "running" and (contents(system, "out") or time.monotonic() > patience):
            os.kill(os.getpid(), signal.SIGTERM)

    settings = Settings(spark_buckets=2, spark_trigger_interval=timedelta(milliseconds=100))
    run(make(), engine="spark", system=system, settings=settings, progress=stop_when_shown, spark=spark)
    assert [record[0] for record in contents(system, "out")] == [b"a"]


def test_a_batch_that_was_published_but_not_committed_fires_nothing_more_when_it_is_run_again(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a later clock let fire in it would be thrown away, for it was published already."""
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": [[(b"a", b"a", 1000, ()), (b"a", b"b", 1001, ())]]})
    settings = Settings(spark_buckets=2, spark_trigger_interval=timedelta(milliseconds=100))
    published = LogSink.run

    def publish_and_die(self: LogSink, rows: "DataFrame", batch: int) -> NoReturn:
        published(self, rows, batch)
        raise OSError("the driver dies")

    monkeypatch.setattr(LogSink, "run", publish_and_die)
    with pytest.raises(SystemProblem, match="the driver dies"):
        run(by_clock(10 * SECOND), engine="spark", system=system, settings=settings, spark=spark)
    monkeypatch.setattr(LogSink, "run", published)
    over = time.monotonic() + 10
    wait_until(lambda: time.monotonic() >= over, "the window has ended by the clock")
    patience = time.monotonic() + 120

    def stop_when_shown(progress: Progress) -> None:
        if progress.phase == "running" and (contents(system, "out") or time.monotonic() > patience):
            os.kill(os.getpid(), signal.SIGTERM)

    run(by_clock(10 * SECOND), engine="spark", system=system, settings=settings, progress=stop_when_shown, spark=spark)
    assert [record[0] for record in contents(system, "out")] == [b"a"]


def test_a_plan_tells_how_seldom_the_clock_is_looked_at() -> None:
    assert [one.subject for one in caveats(plan(by_clock()), "spark")] == ["window seconds"]
    assert [one.subject for one in caveats(plan(with_idle_partitions()), "spark")] == ["stream words"]

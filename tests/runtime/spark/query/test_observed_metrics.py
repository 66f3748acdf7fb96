"""Spark shows what a batch has counted, how far event time and the inputs are, and how far the batch itself is."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from engines.targets import write
from fluvial.dsl import Pipeline, count, skip, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import start
from fluvial.runtime.spark.query.observed_metrics import NAME
from fluvial.runtime.systems import LogSystem
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = timedelta(minutes=1)
GAUGES = ("watermark_timestamp_seconds", "lag_messages")


def counting(gate: Path) -> Pipeline:
    """The first message is held until there is a gate."""

    def odd(value: int) -> int:
        if value == 0:
            wait_until(gate.exists, "the gate is open")
        if value == 13:
            raise ValueError("unlucky")
        return value

    pipeline = Pipeline("p", on_error=skip())
    numbers = pipeline.stream("in.put", value=int).map(odd).partition_by(lambda n: n % 3, id="by-rest", key_type=int)
    windows = numbers.window(tumbling(MINUTE), count(), id="per-minute")
    windows.map(lambda pane: pane.value).send_to("out")
    return pipeline


class Heard(StreamingQueryListener):
    """What a listener of the user's hears of queries: their starts, and the metrics of batches."""

    def __init__(self) -> None:
        self.started: list[str | None] = []
        self.batches: list[dict[str, Any]] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self.started.append(event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if NAME in event.progress.observedMetrics:
            self.batches.append(event.progress.observedMetrics[NAME].asDict())

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing."""


@pytest.fixture
def heard(spark: "SparkSession") -> Iterator[Heard]:
    """A listener in the session of the user."""
    listener = Heard()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


def observations(queries: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    for query in queries:
        for progress in query.recentProgress:
            if NAME in progress.observedMetrics:
                yield progress.observedMetrics[NAME].asDict()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_progress_of_a_query_has_what_the_report_has(tmp_path: Path, spark: "SparkSession", heard: Heard) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(None, b"%d" % n, 60_000 * n, ()) for n in range(40)]
    late: list[Record] = [(None, b"%d" % n, 0, ()) for n in range(40, 50)]
    write(system, {"in.put": [records + late, [(None, b"50", 60_000 * 39, ())]]})
    settings = Settings(spark_buckets=2, spark_batch_records=20)
    gate = tmp_path / "gate"
    handle = start(counting(gate), engine="spark", system=system, settings=settings, until="end", spark=spark)
    wait_until(lambda: handle.progress and handle.progress.batch_tasks_done, "a task is done")
    assert handle.progress is not None
    # Of the two partitions one is held, and behind them are shuffle tasks that wait.
    assert (handle.progress.batch_tasks_done, handle.progress.batch_tasks) == (1, 4)
    assert "1 of 4 tasks" in repr(handle)
    gate.touch()
    report = handle.wait()
    assert report is not None
    batches = list(observations(handle.queries))
    assert handle.progress.batch_tasks == 0
    wait_until(lambda: heard.batches == batches, "the listener has heard of all batches")
    assert len(heard.started) == 1
    totals: Counter[str] = Counter()
    for observed in batches:
        totals.update({name: number for name, number in observed.items() if not name.startswith(GAUGES)})
    assert report.late["per-minute"] > 0
    assert list(report.failed.values()) == [1]
    expected = {
        **{f"messages_processed {name}": number for name, number in report.read.items()},
        **{f"messages_written {name}": number for name, number in report.written.items()},
        **{f"late_messages {name}": number for name, number in report.late.items()},
        **{f"failed_messages {name}": number for name, number in report.failed.items()},
    }
    assert {name: totals[name] for name in expected} == expected
    assert totals["operator_messages per-minute"] == 50
    assert [observed["lag_messages in.put"] for observed in batches] == [31, 11, 0]
    for stream in report.read:
        watermarks = [observed[f"watermark_timestamp_seconds {stream}"] for observed in batches]
        assert watermarks == [None, 60.0 * 18, 60.0 * 38]  # of the batches before

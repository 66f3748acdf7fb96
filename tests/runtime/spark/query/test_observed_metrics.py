"""Spark shows what a batch has counted."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import write
from fluvial.dsl import Pipeline, count, skip, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import start
from fluvial.runtime.spark.query.observed_metrics import NAME
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = timedelta(minutes=1)


def odd(value: int) -> int:
    if value == 13:
        raise ValueError("unlucky")
    return value


def counting() -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    numbers = pipeline.stream("in.put", value=int).map(odd).partition_by(lambda n: n % 3, id="by-rest", key_type=int)
    windows = numbers.window(tumbling(MINUTE), count(), id="per-minute")
    windows.map(lambda pane: pane.value).send_to("out")
    return pipeline


def observations(queries: tuple[Any, ...]) -> Iterator[dict[str, int]]:
    for query in queries:
        for progress in query.recentProgress:
            if NAME in progress.observedMetrics:
                yield progress.observedMetrics[NAME].asDict()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_progress_of_a_query_has_what_the_report_has(tmp_path: Path, spark: "SparkSession") -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(None, b"%d" % n, 60_000 * n, ()) for n in range(40)]
    late: list[Record] = [(None, b"%d" % n, 0, ()) for n in range(40, 50)]
    write(system, {"in.put": [records + late]})
    settings = Settings(spark_buckets=2, spark_batch_records=20)
    handle = start(counting(), engine="spark", system=system, settings=settings, until="end", spark=spark)
    report = handle.wait()
    assert report is not None
    totals: Counter[str] = Counter()
    for observed in observations(handle.queries):
        totals.update(observed)
    assert report.late["per-minute"] > 0
    assert list(report.failed.values()) == [1]
    expected = {
        **{f"messages_processed {name}": number for name, number in report.read.items()},
        **{f"messages_written {name}": number for name, number in report.written.items()},
        **{f"late_messages {name}": number for name, number in report.late.items()},
        **{f"failed_messages {name}": number for name, number in report.failed.items()},
    }
    assert {name: totals[name] for name in expected} == expected
    assert totals["operator_messages per-minute"] == 49

"""When a query on Kafka is told that its input has ended, without Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the source is one of Spark's")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from fluvial.runtime.spark.batch_report import BatchMetrics
from fluvial.runtime.spark.connectors.end_of_input import EndOptions, EndStreamReader, offsets_left
from fluvial.runtime.spark.connectors.kafka_format import offsets_text
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.batch_requests import NEVER, BatchRequests
from fluvial.runtime.spark.rows import OUTPUT, TaskReport, decode
from fluvial.runtime.spark.worker.control_rows import EndOfInputPartition, metrics_rows

STARTS = {"in": [0, 3], "other": [0]}
ENDS = {"in": [5, 3], "other": [2]}
FIRST: dict[str, Any] = {"ends": 0}


class Query:
    """What Spark notes of a query's batches, and what it asks our source for each."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        (checkpoint / "offsets").mkdir()
        self.batches = 0
        self.requests: list[BatchRequests] = []
        self.ends = FIRST

    def planned(self, *offsets: list[int]) -> None:
        """A batch that goes up to these offsets of the streams, planned along with where our source is."""
        lines = ["v1", "{}", offsets_text(dict(zip(STARTS, offsets, strict=True))), '{"ends": 0}']
        (self.checkpoint / "offsets" / str(self.batches)).write_text("\n".join(lines))
        self.batches += 1
        for requests in self.requests:
            requests.request(NEVER)

    def run(self, ends: dict[str, list[int]] | None = ENDS, *, at_once: bool = False) -> EndStreamReader:
        """A run whose driver tells after each batch what is left."""
        requests = BatchRequests(lambda: None if ends is None else offsets_left(self.checkpoint, STARTS, ends))
        self.requests.append(requests)
        requests.request(NEVER)
        options = EndOptions(ends is not None, at_once, ShippedPlan("", b""), requests.file)
        return EndStreamReader(options)


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    made = Query(tmp_path)
    yield made
    for requests in made.requests:
        requests.close()


def latest(source: EndStreamReader, start: dict[str, Any] = FIRST) -> int:
    ends: int = source.latestOffset(start, ReadAllAvailable())["ends"]
    return ends


def test_a_batch_without_messages_has_a_report_of_its_metrics() -> None:
    metrics = BatchMetrics({"in": 70}, {"in": 3})
    ((level, label, block),) = metrics_rows(ShippedPlan("", b""), [(1, 9, b"wake")], metrics)
    report = decode(block)
    assert isinstance(report, TaskReport)
    assert (level, label, report.report.metrics) == (OUTPUT, 9, metrics)
    assert metrics_rows(ShippedPlan("", b""), [(1, 9, b"wake")], None) == []


def test_the_end_is_reported_once_all_of_every_partition_is_planned(query: Query) -> None:
    source = query.run()
    found = [latest(source)]
    for offsets in ([5, 3], [1]), ([5, 3], [2]):
        query.planned(*offsets)
        found.append(latest(source))
    assert found == [0, 0, 1]
    assert source.partitions({"ends": 0}, {"ends": 1}) == [EndOfInputPartition(1)]


def test_what_came_after_the_beginning_does_not_keep_the_end_away(query: Query) -> None:
    query.planned([9, 3], [2])
    assert latest(query.run()) == 1


def test_an_input_without_anything_ends_at_once(query: Query) -> None:
    assert latest(query.run(STARTS)) == 1


def test_a_run_tells_one_end_and_a_later_run_another(query: Query) -> None:
    query.planned([5, 3], [2])
    first, second = query.run(), query.run()
    assert [latest(first), latest(first, {"ends": 1})] == [1, 1]
    assert first.partitions({"ends": 1}, {"ends": 1}) == []
    assert latest(second, {"ends": 1}) == 2


def test_the_tenth_batch_comes_after_the_ninth(query: Query) -> None:
    for number in range(11):
        query.planned([number // 2, 3], [2])
    assert latest(query.run()) == 1


def test_a_run_that_goes_on_tells_no_end(query: Query) -> None:
    query.planned([5, 3], [2])
    assert latest(query.run(ends=None)) == 0


def test_where_one_batch_takes_all_it_is_told_the_end(query: Query) -> None:
    source = query.run(at_once=True)
    assert [latest(source), latest(source, {"ends": 1})] == [1, 1]


def test_what_is_left_counts_no_partition_that_is_ahead(query: Query) -> None:
    assert offsets_left(query.checkpoint, STARTS, ENDS) == 7
    query.planned([4, 9], [0])
    assert offsets_left(query.checkpoint, STARTS, ENDS) == 3


@pytest.mark.parametrize("at_once", [True, False])
def test_a_run_that_catches_up_reports_no_end(query: Query, at_once: bool) -> None:
    query.planned([5, 3], [2])
    query.run()
    options = EndOptions(True, at_once, ShippedPlan("", b""), query.requests[0].file, catches_up=True)
    start = {"ends": 1, "requests": 4}
    assert EndStreamReader(options).latestOffset(start, ReadAllAvailable()) == start

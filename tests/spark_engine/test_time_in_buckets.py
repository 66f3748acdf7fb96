"""Time in Spark's buckets, without Spark: it is the batch's, and what comes in one batch comes at once."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the kernel runs in Spark's workers")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from engines.spark_in_process import queries
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.spark.connectors.end_of_input import EndOptions, EndStreamReader
from fluvial.runtime.spark.connectors.log_source import LogOptions, LogRange, LogStreamReader
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.batch_requests import BatchRequests
from fluvial.runtime.spark.worker.control_rows import DuePartition, EndOfInputPartition
from fluvial.runtime.systems.contract import RecordBatch
from generators.changing import changed

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
ALL = ReadAllAvailable()


class Feed:
    """A query and the offsets of what it is given."""

    def __init__(self, pipeline: Pipeline, **partitions: int) -> None:
        (self.query,) = queries(plan(pipeline, partitions=partitions))
        self._offsets: dict[tuple[str, int], int] = {}

    def batch(self, *parts: tuple[str, int, Sequence[int]], end: bool = False) -> None:
        """One batch: messages at these times, of these partitions of streams."""
        made = []
        for stream, number, times in parts:
            at = self._offsets.get((stream, number), 0)
            self._offsets[stream, number] = at + len(times)
            records: list[Record] = [(b"k", b"1", time, ()) for time in times]
            made.append(RecordBatch(stream, number, range(at, at + len(times)), records))
        self.query.batch(made, end=end)

    @property
    def late(self) -> dict[str, int]:
        return self.query.counts.by_kind.get("late", {})

    @property
    def panes(self) -> int:
        return sum(map(len, self.query.written.values()))


def behind_a_border(idle_after: timedelta | None = 10 * SECOND) -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int, idle_after=idle_after)
    numbers.partition_by(str, id="by", key_type=str).window(tumbling(MINUTE), count(), id="w").send_to("out")
    return pipeline


def test_a_batch_that_is_run_again_has_the_same_time() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    numbers.window(tumbling(MINUTE), count(), id="w", time="processing").send_to("out")
    feed = Feed(pipeline, **{"in": 1})
    feed.batch(("in", 0, [1]))
    feed.query.now += 1000
    before, batches = copy.deepcopy(feed.query.state), feed.query.batches
    feed.batch()
    assert feed.panes == 0
    # It was published, and Spark has not committed its state: it comes again.
    feed.query.state, feed.query.batches = before, batches
    feed.query.now += 60_000
    feed.query.one_batch([])
    assert feed.panes == 0
    feed.query.now += 60_000
    feed.batch()
    assert feed.panes == 1


@pytest.mark.parametrize("backwards", [False, True])
def test_a_partition_that_is_back_holds_time_back_in_the_batch_of_its_return(backwards: bool) -> None:
    feed = Feed(behind_a_border(), **{"in": 2})
    feed.query.backwards = backwards
    feed.batch(("in", 0, [1000]), ("in", 1, [1000]))
    for _ in range(2):
        feed.query.now += 6000
        feed.batch(("in", 0, [2000]))
    feed.batch(("in", 0, [100_000]), ("in", 1, [3000]))
    feed.batch(("in", 1, [4000, 5000]))
    assert (feed.panes, feed.late) == (0, {})


def test_silence_counts_from_the_start_of_a_run() -> None:
    feed = Feed(behind_a_border(), **{"in": 2})
    feed.batch(("in", 0, [1000]), ("in", 1, [1000]))
    feed.query.now += 600_000  # it does not run
    feed.query.restart()
    feed.batch()
    feed.query.now += 2000
    feed.batch(("in", 0, [2000]), ("in", 1, [2000]))
    assert feed.late == {}
    feed.query.now += 20_000
    feed.batch()
    feed.query.now += 60_000
    feed.batch()
    assert feed.panes == 1  # from then on they are idle


def test_a_stream_whose_patience_was_removed_is_not_idle_any_more() -> None:
    feed = Feed(behind_a_border(), **{"in": 2})
    feed.batch(("in", 0, [1000]), ("in", 1, [1000]))
    for _ in range(2):
        feed.query.now += 6000
        feed.batch(("in", 0, [2000]))
    feed.query = changed(feed.query, behind_a_border(None))
    feed.batch(("in", 0, [100_000]))
    feed.batch(("in", 1, [3000]))
    assert (feed.panes, feed.late) == (0, {})


def test_a_stream_that_does_not_lead_to_a_border_is_no_producer_of_it() -> None:
    pipeline = Pipeline("p")
    one, two = pipeline.stream("a", value=int, idle_after=5 * SECOND), pipeline.stream("b", value=int)
    for numbers, id in (one.merge(two), "both"), (two, "second"):
        keyed = numbers.partition_by(str, id=id, key_type=str, value=int)
        keyed.window(tumbling(MINUTE), count(), id=f"w-{id}").send_to(f"out-{id}")
    feed = Feed(pipeline, a=2, b=2)
    feed.batch(("b", 0, [1000]))
    feed.query.now += 6000
    feed.batch()
    feed.batch(("b", 0, [200_000]))
    feed.batch(("b", 1, [1000, 2000]))
    assert feed.late == {}


def test_a_reset_operator_begins_empty_at_the_watermark_of_its_stage() -> None:
    def counting(lateness: timedelta) -> Pipeline:
        pipeline = Pipeline("p")
        numbers = pipeline.stream("in", key=str, value=int)
        numbers.window(tumbling(MINUTE), count(), id="w", lateness=lateness).send_to("out")
        return pipeline

    feed = Feed(counting(timedelta(0)), **{"in": 1})
    feed.batch(("in", 0, [1000, 130_000]))
    feed.query = changed(feed.query, counting(10 * MINUTE), resets={"w": 1})
    feed.batch(("in", 0, [1000]))
    feed.batch(("in", 0, [2000]))
    assert (feed.late, feed.panes) == ({}, 3)  # the one before, and one for each of the late ones


CONTROLS = [
    lambda file, ends: LogStreamReader(
        LogOptions("log", {"in": [0]}, ends, ends is not None, 10, ShippedPlan("", b""), requests=file)
    ),
    lambda file, ends: EndStreamReader(EndOptions(ends is not None, ends is not None, ShippedPlan("", b""), file)),
]


@pytest.fixture
def requests() -> Iterator[BatchRequests]:
    with closing(BatchRequests(lambda: None)) as made:
        yield made


def planned(reader: Any, start: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The offsets to which the next batch goes, and its control partitions."""
    end = reader.latestOffset(start, ALL)
    return end, [part for part in reader.partitions(start, end) if not isinstance(part, LogRange)]


@pytest.mark.parametrize("make", CONTROLS, ids=["log", "kafka"])
def test_a_request_makes_one_batch(make: Callable[..., Any], requests: BatchRequests) -> None:
    reader = without_data(make(requests.file, None))
    at = reader.initialOffset()
    assert planned(reader, at) == (at, [])
    requests.request(0)
    at, parts = planned(reader, at)
    assert parts == [DuePartition(1)]
    assert planned(reader, at) == (at, [])
    requests.request(0)
    assert planned(reader, at)[1] == [DuePartition(2)]


@pytest.mark.parametrize("make", CONTROLS, ids=["log", "kafka"])
def test_in_a_run_to_the_end_time_alone_makes_no_batch_and_none_comes_behind_the_end(
    make: Callable[..., Any], requests: BatchRequests
) -> None:
    reader = make(requests.file, {"in": [0]})
    requests.request(1)
    at, parts = planned(reader, reader.initialOffset())
    assert parts == [EndOfInputPartition(1)]
    requests.request(0)
    assert planned(reader, at) == (at, [])


def without_data(reader: Any) -> Any:
    """A reader of a log that has no records."""
    if isinstance(reader, LogStreamReader):
        reader._target = {"in": [0]}
    return reader


@pytest.mark.parametrize("make", CONTROLS, ids=["log", "kafka"])
def test_offsets_of_earlier_versions_are_read(make: Callable[..., Any]) -> None:
    earlier = {"streams": {"in": [3]}, "ends": 0, "time": 5, "since": 6}
    assert make("", None).partitions(earlier, earlier) == []

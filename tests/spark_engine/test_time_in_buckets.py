"""Time in Spark's buckets, without Spark: it is the batch's, and what comes in one batch comes at once."""

import copy
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the kernel runs in Spark's workers")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from engines.spark_in_process import queries
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.spark.connectors import end_of_input as end_source
from fluvial.runtime.spark.connectors import log_source
from fluvial.runtime.spark.connectors.end_of_input import EndOptions, EndStreamReader
from fluvial.runtime.spark.connectors.log_source import LogOptions, LogRange, LogStreamReader
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.worker import control_rows as control
from fluvial.runtime.spark.worker.control_rows import EndOfInputPartition, ProcessingTimePartition, SourceClock
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
    before = copy.deepcopy(feed.query.state)
    feed.batch()
    assert feed.panes == 0
    feed.query.state = before  # it was published, and Spark has not committed its state: it comes again
    feed.batch()
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
    feed.query.since = feed.query.now
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


class Wall:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        for module in (control, end_source, log_source):
            monkeypatch.setattr(module, "wall_clock", lambda: self.now)


def log_reader(ends: dict[str, list[int]] | None = None, **first: list[int]) -> LogStreamReader:
    told = LogOptions("log", {"in": [0], "rates": [0]}, ends, ends is not None, 10, ShippedPlan("", b""), first, True)
    reader = LogStreamReader(told)
    reader._target = {"in": [10], "rates": [10]}
    return reader


def kafka_reader(ends: dict[str, list[int]] | None = None) -> EndStreamReader:
    return EndStreamReader(EndOptions("none", {"in": [0]}, ends, ends is not None, ShippedPlan("", b""), True))


@pytest.mark.parametrize("make", [log_reader, kafka_reader])
def test_the_time_of_a_batch_is_in_its_offsets(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    told = [word for word in reader.partitions(start, end) if isinstance(word, ProcessingTimePartition)]
    assert told == [ProcessingTimePartition(1_000_000, 1_000_000)]
    wall.now += 600_000
    assert [word for word in make().partitions(start, end) if isinstance(word, ProcessingTimePartition)] == told


@pytest.mark.parametrize("make", [log_reader, kafka_reader])
def test_each_run_begins_to_listen_anew(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    first = make()
    at = first.latestOffset(first.initialOffset(), ALL)
    wall.now += 5400
    at = first.latestOffset(at, ALL)
    assert (at["time"], at["since"]) == (1_005_000, 1_000_000)
    second = make()
    wall.now += 5000
    at = second.latestOffset(at, ALL)
    assert (at["time"], at["since"]) == (1_010_000, 1_005_400)


def test_no_batch_is_made_of_the_time_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    reader = log_reader()
    at = reader.latestOffset(reader.initialOffset(), ALL)
    wall.now += 999
    assert reader.latestOffset(at, ALL) == at
    assert log_reader().latestOffset(at, ALL) == at


def test_what_waits_for_a_stream_that_goes_before_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    reader = log_reader(rates=[10])
    wall.now += 50_000
    at = reader.latestOffset(reader.initialOffset(), ALL)
    assert at["streams"] == {"in": [0], "rates": [10]}
    assert at["since"] == 1_050_000


def test_a_run_to_the_end_tells_the_time_of_each_batch_and_makes_none_of_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall = Wall(monkeypatch)
    reader = log_reader({"in": [15], "rates": [0]})
    reader._target = {"in": [15], "rates": [0]}
    at, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(at, ALL)) != at:
        batches.append(reader.partitions(at, end))
        at = end
        wall.now += 3000
    assert batches == [
        [LogRange("in", 0, 0, 10), ProcessingTimePartition(1_000_000, 1_000_000)],
        [LogRange("in", 0, 10, 15), ProcessingTimePartition(1_003_000, 1_000_000), EndOfInputPartition(1)],
    ]


def test_a_run_to_the_end_on_kafka_tells_the_time_as_long_as_more_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch)
    planned = iter([7, 3, 3, 0, 0])
    monkeypatch.setattr(end_source, "offsets_left", lambda *_: next(planned))
    told = EndOptions("none", {"in": [0]}, {"in": [7]}, False, ShippedPlan("", b""), True)
    reader = EndStreamReader(told)
    at, times = reader.initialOffset(), []
    for _ in range(5):
        at = reader.latestOffset(at, ALL)
        times.append(at["time"])
        wall.now += 2000
    assert times == [1_000_000, 1_002_000, 1_002_000, 1_006_000, 1_006_000]


def test_offsets_of_before_there_was_a_clock_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Wall(monkeypatch)
    assert kafka_reader().partitions({"ends": 0}, {"ends": 0}) == []
    assert log_reader().partitions({"streams": {"in": [3], "rates": [0]}}, {"streams": {"in": [3], "rates": [0]}}) == []
    assert SourceClock(5, 6).advanced(7) == SourceClock(1_000_000, 7)

"""The offsets of a query on Spark, without Spark."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the source is one of Spark's")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.connectors.log_source import LogOptions, LogRange, LogStreamReader, shares
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.worker.control_rows import EndOfInputPartition

ALL = ReadAllAvailable()


def reader(*, closing: bool, ends: list[int], batch_records: int = 10) -> LogStreamReader:
    told = LogOptions("log", {"in": [0, 0]}, {"in": ends}, closing, batch_records, ShippedPlan("", b""))
    return LogStreamReader(told)


def batches(source: LogStreamReader, start: dict[str, Any]) -> list[list[Any]]:
    """What Spark would plan from an offset on, until nothing new comes."""
    found = []
    while (end := source.latestOffset(start, ALL)) != start:
        found.append(source.partitions(start, end))
        start = end
    return found


def test_the_last_batch_of_a_run_to_the_end_ends_the_input() -> None:
    source = reader(closing=True, ends=[15, 3])
    first, last = batches(source, source.initialOffset())
    assert first == [LogRange("in", 0, 0, 7), LogRange("in", 1, 0, 3)]
    assert last == [LogRange("in", 0, 7, 15), EndOfInputPartition(1)]


@given(st.dictionaries(st.integers(0, 9), st.integers(-3, 20), max_size=8), st.integers(1, 50))
def test_a_batch_is_bounded_as_a_whole_and_takes_as_much_as_it_may(waiting: dict[int, int], most: int) -> None:
    shared = shares(waiting, most)
    left = sum(max(0, count) for count in waiting.values())
    assert sum(shared.values()) == min(most, left)
    assert all(0 <= shared[key] <= max(0, count) for key, count in waiting.items())
    # Whoever gets less than another waits for no more than it gets.
    assert all(
        shared[one] >= shared[other] - 1 or shared[one] == max(0, waiting[one]) for one in waiting for other in waiting
    )


def test_a_run_to_the_end_without_anything_new_ends_the_input_all_the_same() -> None:
    (only,) = batches(reader(closing=True, ends=[5, 5]), {"streams": {"in": [5, 5]}, "ends": 1})
    assert only == [EndOfInputPartition(2)]


def test_a_run_that_is_not_to_close_ends_nothing() -> None:
    source = reader(closing=False, ends=[5, 5])
    (only,) = batches(source, source.initialOffset())
    assert only == [LogRange("in", 0, 0, 5), LogRange("in", 1, 0, 5)]


def test_the_end_is_not_told_again_where_a_batch_that_told_it_is_run_again() -> None:
    before, after = reader(closing=True, ends=[5, 5]), reader(closing=False, ends=[9, 5])
    planned = before.latestOffset(before.initialOffset(), ALL)
    assert batches(after, planned) == [[LogRange("in", 0, 5, 9)]]


def test_a_log_that_was_cut_short_is_not_gone_on_with() -> None:
    source = reader(closing=True, ends=[9, 2])
    with pytest.raises(SystemProblem, match=r"offset 5 lies outside partition 1 of stream 'in'"):
        batches(source, {"streams": {"in": [5, 5]}, "ends": 0})


@pytest.mark.parametrize("ends", [None, {"orders": [12], "rates": [15]}])
def test_a_bootstrap_stream_is_read_before_the_others(ends: dict[str, list[int]] | None) -> None:
    starts = {"orders": [2], "rates": [3]}
    told = LogOptions("log", starts, ends, ends is not None, 10, ShippedPlan("", b""), first={"rates": [15]})
    source = LogStreamReader(told)
    source._target = {"orders": [12], "rates": [15]}  # with the rest of a run without end, whose streams grow
    first, second, third = batches(source, source.initialOffset())
    assert first == [LogRange("rates", 0, 3, 13)]
    assert second == [LogRange("rates", 0, 13, 15)]
    assert third == [LogRange("orders", 0, 2, 12), *([EndOfInputPartition(1)] if ends else [])]

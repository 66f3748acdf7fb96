"""The bound of Spark's batches is fitted to a wanted duration."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from fluvial.dsl import Pipeline, after_count, count, repeat, unbounded
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.spark.query.batch_sizing import LEAST, BatchSizer
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 1_000_000


def starts(sizer: BatchSizer, seconds: Callable[[int], float], batches: int, available: int = MOST) -> int:
    """How often a query is started again in so many batches, each of which has what there is, up to the bound."""
    again = 0
    sizer.begin()
    for _ in range(batches):
        messages = min(sizer.bound, available)
        sizer.took(seconds(messages), messages)
        if sizer.due:
            sizer.begin()
            again += 1
    return again


@given(cost=st.floats(1e-6, 1e-3), overhead=st.floats(0, 0.5))
def test_batches_come_to_take_about_what_is_wanted(cost: float, overhead: float) -> None:
    sizer = BatchSizer(timedelta(seconds=2), MOST)
    again = starts(sizer, lambda messages: overhead + cost * messages, 40)
    reached = overhead + cost * sizer.bound
    assert sizer.bound == MOST or 1 <= reached <= 3.1
    assert again <= 3


@given(cost=st.floats(1e-4, 1e-3), available=st.integers(1, 1000))
def test_batches_that_are_not_full_do_not_raise_the_bound(cost: float, available: int) -> None:
    sizer = BatchSizer(timedelta(seconds=1), MOST)
    starts(sizer, lambda messages: cost * messages, 20)
    bound = sizer.bound
    assert starts(sizer, lambda messages: cost * messages, 20, min(available, bound // 2)) == 0
    assert sizer.bound == bound


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, MOST)), max_size=40))
def test_the_bound_stays_within_its_limits(batches: list[tuple[float, int]]) -> None:
    sizer = BatchSizer(timedelta(seconds=1), MOST)
    for seconds, messages in batches:
        sizer.took(seconds, messages)
        if sizer.due:
            sizer.begin()
        assert LEAST <= sizer.bound <= MOST


def test_one_slow_batch_changes_nothing() -> None:
    sizer = BatchSizer(timedelta(seconds=1), 1000)
    sizer.begin()
    for seconds in (1.0, 9.0, 1.0, 9.0, 9.0, 1.0):
        sizer.took(seconds, 1000)
        assert not sizer.due


def test_the_first_batch_after_a_start_does_not_count() -> None:
    sizer = BatchSizer(timedelta(seconds=1), 1000)
    found = []
    sizer.begin()
    for _ in range(4):
        sizer.took(9.0, 1000)
        found.append(sizer.due)
    assert found == [False, False, False, True]


def slow(number: int) -> int:
    time.sleep(0.002)
    return number


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_query_that_is_started_again_loses_and_repeats_nothing(tmp_path: Path, spark: "SparkSession") -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    records: list[Record] = [(b"k%d" % (number % 3), b"1", number, ()) for number in range(1800)]
    write(system, {"in": [records]})
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int).map(slow)
    counted = numbers.window(unbounded(), count(), id="w", trigger=repeat(after_count(1)))
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    settings = Settings(spark_buckets=2, spark_batch_records=250, spark_batch_duration=timedelta(milliseconds=250))
    report = run(pipeline, engine="spark", system=system, settings=settings, until="caught-up", spark=spark)
    written = sorted(value or b"" for _, value, _, _ in contents(system, "out"))
    assert written == sorted(b"k%d %d" % (key, times) for key in range(3) for times in range(1, 601))
    assert report.checkpoints > 1800 // 250 + 1, "the bound of a batch stayed as it was"

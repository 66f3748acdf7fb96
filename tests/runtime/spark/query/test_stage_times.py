"""The watermarks of a query's stages, as the driver finds them."""

from collections.abc import Callable
from datetime import timedelta

import pytest

pytest.importorskip("pyspark", reason="the levels are Spark's")

from fluvial.dsl import Pipeline, count, session, tumbling
from fluvial.planner import plan
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.spark.lowering.lowering import components, levels
from fluvial.runtime.spark.query.stage_times import StageTimes

MINUTE = timedelta(minutes=1)


def times_of(pipeline: Pipeline, **partitions: int) -> StageTimes:
    made = plan(pipeline, partitions=partitions)
    (stages,) = components(made)
    return StageTimes(made, levels(made, stages, 4))


def three_levels(pipeline: Pipeline) -> None:
    numbers = pipeline.stream("a", key=str, value=int)
    counted = numbers.window(tumbling(MINUTE), count(), id="first").map(lambda pane: pane.value)
    by = counted.partition_by(str, id="by", key_type=str, value=int)
    again = by.window(session(gap=MINUTE), count(), id="second").map(lambda pane: pane.value)
    again.partition_by(str, id="last", key_type=str, value=int).window(tumbling(MINUTE), count(), id="w").send_to("out")


def two_inputs(pipeline: Pipeline) -> None:
    one, other = pipeline.stream("a", value=int), pipeline.stream("b", value=int)
    one.merge(other).partition_by(str, id="by", key_type=str).window(tumbling(MINUTE), count(), id="w").send_to("out")


def built(build: Callable[[Pipeline], None]) -> Pipeline:
    pipeline = Pipeline("p")
    build(pipeline)
    return pipeline


def test_the_least_partition_holds_at_every_level_at_once() -> None:
    times = times_of(built(three_levels), a=2)
    assert times.advance({"a": {0: (50, False)}}, START) == {}
    found = times.advance({"a": {0: (50, False), 1: (70, False)}}, START)
    assert found == {"a": (50, False), "p-by": (50, False), "p-last": (50, False)}


def test_inputs_that_meet_wait_for_each_other() -> None:
    times = times_of(built(two_inputs), a=1, b=1)
    assert times.advance({"a": {0: (50, False)}}, START) == {}
    assert times.advance({"a": {0: (50, False)}, "b": {0: (20, False)}}, START) == {"p-by": (20, False)}


def test_an_idle_partition_is_not_waited_for_and_is_once_it_is_back() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("a", key=str, value=int, idle_after=MINUTE)
    numbers.window(tumbling(MINUTE), count(), id="w").send_to("out")
    times = times_of(pipeline, a=2)
    times.advance({"a": {0: (50, False), 1: (10, False)}}, 0)
    assert times.advance({"a": {0: (50, False), 1: (10, True)}}, 1) == {"a": (50, False)}
    assert times.advance({"a": {0: (50, False), 1: (30, True)}}, 1) == {"a": (50, False)}
    assert times.advance({"a": {0: (50, True), 1: (30, True)}}, 1) == {"a": (50, True)}
    assert times.advance({"a": {0: (50, True), 1: (40, False)}}, 2) == {"a": (40, False)}


def test_behind_processing_time_the_clock_is_the_watermark() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("a", key=str, value=int)
    counted = numbers.window(tumbling(MINUTE), count(), id="first", time="processing").map(lambda pane: pane.value)
    counted.partition_by(str, id="by", key_type=str, value=int).window(tumbling(MINUTE), count(), id="w").send_to("out")
    times = times_of(pipeline, a=1)
    assert times.follow_clock
    assert times.advance({"a": {0: (50, False)}}, 90_000)["p-by"] == (90_000, False)


@pytest.mark.parametrize("build", [three_levels, two_inputs])
def test_event_time_alone_follows_no_clock(build: Callable[[Pipeline], None]) -> None:
    assert not times_of(built(build), a=1).follow_clock

"""Watermarks of producers: the least counts, idle ones hold nothing back, and a restart goes on from them."""

from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Pipeline
from fluvial.planner.task_assignment import StageTasks
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.time.producer_watermarks import ProducerWatermarks, may_be_idle
from fluvial.runtime.kernel.time.stage_input import StageInput

SECOND = timedelta(seconds=1)


def source(**options: Any) -> StageInput:
    operator: Any = Pipeline("p").stream("in", value=int, **options).operator
    return StageInput("in", "source", operator, operator.id, ())


def between() -> StageInput:
    return StageInput("mid", "trailer", None, "by", ())


def watermarks(*inputs: StageInput, position: Position | None = None, writers: int = 2) -> ProducerWatermarks:
    return ProducerWatermarks({one.stream: one for one in inputs}, position or Position(), {"mid": StageTasks(writers)})


def test_a_stream_has_a_watermark_once_all_producers_have_reported_one() -> None:
    made = watermarks(between())
    made.record("mid", 0, 5, idle=False)
    assert made.known() == {"mid": START}
    made.record("mid", 1, 3, idle=False)
    assert made.known() == {"mid": 3}


def test_a_producer_never_goes_back() -> None:
    made = watermarks(between(), writers=1)
    for watermark in (5, 3):
        made.record("mid", 0, watermark, idle=False)
    assert made.reached("mid", 0) == 5


def test_an_idle_producer_holds_nothing_back() -> None:
    made = watermarks(between())
    made.record("mid", 0, 3, idle=False)
    made.record("mid", 1, 9, idle=False)
    assert made.record("mid", 0, 4, idle=True)
    assert made.least("mid") == (9, False)
    assert made.record("mid", 1, 8, idle=True)
    assert (made.least("mid"), made.idle_streams()) == ((9, True), ["mid"])
    assert made.record("mid", 0, 5, idle=False)
    assert made.least("mid") == (5, False)


def test_the_watermark_of_a_source_is_behind_its_largest_timestamp() -> None:
    made = watermarks(source(out_of_order=2 * SECOND))
    assert made.known() == {}
    made.highs["in"] = 10_000
    assert made.known() == {"in": 8_000}


@pytest.mark.parametrize(("options", "may"), [({}, False), ({"idle_after": SECOND}, True)])
def test_a_source_may_be_idle_if_it_says_after_which_time(options: dict[str, Any], may: bool) -> None:
    assert may_be_idle(source(**options)) is may
    made = watermarks(source(**options))
    assert made.set_idle("in", 0, 5)
    assert made.idle_streams() == (["in"] if may else [])


def test_a_restart_goes_on_from_the_position() -> None:
    position = Position()
    before = watermarks(source(), between())
    before.highs["in"] = 10
    before.record("mid", 0, 5, idle=False)
    before.record("mid", 1, 3, idle=True)
    before.add_to(position, {})
    after = watermarks(source(), between(), position=position)
    assert (after.highs, after.reported, after.idle) == (before.highs, before.reported, {"mid": {1: 3}})


def test_a_position_is_not_past_what_is_in_flight() -> None:
    made, position = watermarks(source(), between()), Position()
    made.highs["in"] = 10
    made.record("mid", 0, 5, idle=False)
    made.add_to(position, {"in": 7, "mid": 4})
    assert (position.highs, position.producers) == ({"in": 7}, {"mid": {0: 4}})


def test_producers_that_there_are_no_more_do_not_count() -> None:
    position = Position(producers={"mid": {0: 5, 1: 6, 2: 1}}, rested={"mid": {2: 1}})
    made = watermarks(between(), position=position)
    assert (made.reported, made.least("mid")) == ({"mid": {0: 5, 1: 6}}, (5, False))


def test_the_watermark_of_a_source_stays_where_its_out_of_order_has_changed() -> None:
    position = Position(highs={"in": 10_000}, out_of_order={"in": 2_000})
    made = watermarks(source(out_of_order=5 * SECOND), position=position)
    assert made.known() == {"in": 8_000}

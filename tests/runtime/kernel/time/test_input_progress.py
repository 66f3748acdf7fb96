"""The watermark of an input is the least of its producers once all have reported theirs, and never goes back."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Pipeline
from fluvial.planner.task_assignment import StageTasks
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.time.input_ends import CountOf
from fluvial.runtime.kernel.time.input_progress import InputProgress
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.time.stage_input import StageInput
from fluvial.runtime.kernel.time.watermark_node import WatermarkNode
from fluvial.runtime.kernel.time.watermarks import WatermarkGraph

WRITERS = 3
TOLD = st.lists(st.tuples(st.integers(0, WRITERS - 1), st.integers(0, 30)), max_size=30)


def inputs(
    *streams: str, position: Position | None = None, opened: CountOf = lambda _: 0, catches_up: bool = False
) -> InputProgress:
    """InputProgress by these names: "source" may be 5 ms out of order, the others are written by three tasks."""
    stream = Pipeline("p").stream("source", value=int, out_of_order=timedelta(milliseconds=5))
    source: Any = stream.operator
    inputs = {
        name: StageInput(
            name, "source" if name == "source" else "trailer", source if name == "source" else None, name, ()
        )
        for name in streams
    }
    watermarks = WatermarkGraph([WatermarkNode("stream", (), name) for name in streams], lambda _: None)
    expected = dict.fromkeys(streams, StageTasks(WRITERS))
    ours = "ours" * 8
    return InputProgress(
        inputs,
        watermarks,
        position or Position(),
        expected,
        lambda control: control.run == ours,
        opened,
        catches_up=catches_up,
    )


def control(producer: int, watermark: int = 0, *, ended: bool = True, run: str = "ours", idle: bool = False) -> bytes:
    told = ControlMessage(run * 8, 0, producer, WRITERS, watermark, ended, idle)
    return control_record(told, 0)[3][-1][1]


@given(TOLD)
def test_the_watermark_is_the_least_of_the_producers_once_all_have_reported(told: list[tuple[int, int]]) -> None:
    found, model = inputs("mid"), dict.fromkeys(range(WRITERS), START)
    for producer, watermark in told:
        model[producer] = max(model[producer], watermark)
        assert found.observe("mid", pack_trailer(producer, watermark)) == min(model.values())


@given(st.lists(st.tuples(st.integers(0, WRITERS - 1), st.integers(0, 3), st.booleans()), max_size=20))
def test_a_trailer_that_was_seen_changes_nothing(told: list[tuple[int, int, bool]]) -> None:
    """Readers leave those out that are in `seen`; producers become idle, and wake."""
    every, some = inputs("mid"), inputs("mid")
    for producer, watermark, idle in told:
        trailer = control(producer, watermark, ended=False, idle=True) if idle else pack_trailer(producer, watermark)
        if trailer not in some.seen["mid"]:
            some.observe("mid", trailer)
        assert every.observe("mid", trailer) == some.advance("mid", START)
        assert every.position(lambda _: None) == some.position(lambda _: None)


def test_no_more_trailers_are_remembered_than_repeat() -> None:
    found = inputs("mid")
    for watermark in range(1000):
        found.observe("mid", pack_trailer(0, watermark))
    assert len(found.seen["mid"]) <= 256


@given(TOLD, st.integers(0, 30))
def test_a_restart_goes_on_where_the_producers_were(told: list[tuple[int, int]], cut: int) -> None:
    whole, before = inputs("mid"), inputs("mid")
    for one in told[:cut]:
        before.report("mid", *one)
    after = inputs("mid", position=before.position(lambda _: None))
    assert after.watermark() == before.watermark()
    for one in told[cut:]:
        after.report("mid", *one)
    for one in told:
        whole.report("mid", *one)
    assert after.watermark() == whole.watermark()


def test_a_control_message_tells_time_in_idle_hours() -> None:
    found = inputs("mid")
    assert [found.observe("mid", control(n, 7 + n, ended=False)) for n in (2, 1, 0)] == [START, START, 7]


def test_an_input_ends_when_each_producer_has_said_so() -> None:
    found = inputs("mid")
    for producer in (0, 1, 1, 0):
        found.observe("mid", control(producer, 7))
        assert not found.ends.ended("mid")
    found.observe("mid", control(2, 9))
    assert found.ends.ended("mid")
    assert found.observe("mid", pack_trailer(0, 8)) == END


def test_the_end_of_a_run_that_catches_up_moves_no_watermark() -> None:
    found = inputs("mid", catches_up=True)
    for producer in range(WRITERS):
        found.observe("mid", control(producer, 7 + producer))
    assert (found.ends.ended("mid"), found.watermark()) == (True, 7)
    found.ends.leave_out("mid")
    assert found.watermark() == END


def test_another_run_ends_nothing_though_it_tells_time() -> None:
    found = inputs("mid")
    for producer in range(WRITERS):
        found.observe("mid", control(producer, 7, run="past"))
    assert (found.ends.ended("mid"), found.watermark()) == (False, 7)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=20))
def test_the_watermark_of_a_task_is_the_least_of_its_inputs(steps: list[tuple[str, int]]) -> None:
    found, model = inputs("a", "b"), {"a": START, "b": START}
    for stream, watermark in steps:
        model[stream] = max(model[stream], watermark)
        assert found.advance(stream, watermark) == model[stream]
        assert found.watermark() == min(model.values())


def test_a_source_goes_on_from_its_largest_timestamp_less_what_may_be_out_of_order() -> None:
    assert inputs("source", position=Position({"source": 20})).watermark() == 15
    assert inputs("source").watermark() == START


def test_an_end_is_not_remembered() -> None:
    found = inputs("source", "mid", position=Position({"source": 20}, {"mid": dict.fromkeys(range(WRITERS), 7)}))
    found.ends.end("source")
    found.ends.end("mid")
    kept = found.position(lambda _: None)
    assert inputs("source", "mid", position=kept).watermark() == 7
    assert kept.highs == {"source": 20}


@given(st.integers(0, 30), st.integers(-10, 30), TOLD)
def test_what_is_read_again_after_a_crash_meets_no_later_time(high: int, floor: int, told: Any) -> None:
    """The oldest message in flight met the watermark `floor`."""
    found = inputs("source", "mid", position=Position({"source": high}))
    for one in told:
        found.report("mid", *one)
    before = {stream: found.advance(stream, START) for stream in ("source", "mid")}
    again = inputs("source", "mid", position=found.position(lambda _: floor))
    assert {stream: again.advance(stream, START) for stream in before} == {
        stream: min(mark, floor) for stream, mark in before.items()
    }


def test_a_first_message_in_flight_leaves_nothing_to_remember() -> None:
    found = inputs("source", position=Position({"source": 20}))
    assert found.position(lambda _: START).highs == {}


@given(st.lists(st.integers(0, WRITERS - 1), max_size=6), st.integers(0, 6))
def test_a_restart_within_a_run_knows_who_has_ended(ended: list[int], cut: int) -> None:
    before = inputs("mid")
    for producer in ended[:cut]:
        before.observe("mid", control(producer))
    after = inputs("mid", position=before.position(lambda _: None))
    after.ends.end_again()
    for producer in ended[cut:]:
        after.observe("mid", control(producer))
    assert after.ends.ended("mid") == (len(set(ended)) == WRITERS)


@given(st.lists(st.sampled_from(["message", "end"]), max_size=8), st.data())
def test_an_end_is_remembered_once_all_before_it_has_landed(steps: list[str], data: st.DataObject) -> None:
    """Messages land in their order here; `opened` and `landed` count them."""
    opened, ended_at = 0, None
    found = inputs("mid", opened=lambda _: opened)
    for step in steps:
        if step == "message":
            opened += 1
        else:
            found.observe("mid", control(0))
            ended_at = opened if ended_at is None else ended_at
    landed = data.draw(st.integers(0, opened))
    kept = found.position(lambda _: None, lambda _: landed)
    assert kept.ended == ({"mid": [0]} if ended_at is not None and ended_at <= landed else {})


def test_a_producer_that_this_run_does_not_have_tells_no_time() -> None:
    found = inputs("mid")
    for producer in range(WRITERS):
        found.observe("mid", pack_trailer(producer, 7))
    assert found.observe("mid", pack_trailer(WRITERS, 3)) == 7
    assert found.observe("mid", control(WRITERS, 3, ended=False)) == 7


def test_an_input_that_had_ended_at_the_last_commit_ends_again() -> None:
    before = inputs("mid")
    for producer in range(WRITERS):
        before.observe("mid", control(producer, 7))
    after = inputs("mid", position=before.position(lambda _: 0))
    after.ends.end_again()
    assert after.ends.ended("mid") == before.ends.ended("mid")

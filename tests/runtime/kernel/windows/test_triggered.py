"""Windows that triggers watch: early panes, late ones, and what comes on time."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lone_windows import LoneWindow, Shown
from fluvial.dsl import Pipeline, hopping, reduce
from fluvial.dsl.windows.assigners import Hopping, Tumbling, Unbounded
from fluvial.dsl.windows.triggers import Trigger
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.windows.triggered import TriggeredWindowOperator
from fluvial.runtime.kernel.windows.triggers import AT_ONCE, NEVER
from fluvial.runtime.testing import PipelineDriver
from generators.some_triggers import triggers

TEN = Tumbling(10)


def watched(
    early: Trigger = NEVER, late: Trigger = AT_ONCE, by: Tumbling | Hopping | Unbounded = TEN, **options: Any
) -> LoneWindow:
    return LoneWindow(lambda context: TriggeredWindowOperator(context, by, early, late), **options)


def kinds(window: LoneWindow) -> list[tuple[str, list[int]]]:
    return [(pane.kind, pane.value) for pane in window.take()]


TWO = Trigger(count=2)
EACH_TWO = Trigger(count=2, repeats=True)


def test_a_count_fires_with_the_message_that_makes_it_full() -> None:
    window = watched(TWO)
    window.add(1)
    assert window.take() == []
    window.add(2, 3, 4)
    assert window.take() == [Shown(0, 10, [1, 2], "early")]
    window.advance(10)
    assert kinds(window) == [("on_time", [1, 2, 3, 4])]


def test_one_that_repeats_begins_anew() -> None:
    window = watched(EACH_TWO)
    window.add(1, 2, 3, 4, 5)
    window.advance(10)
    assert kinds(window) == [("early", [1, 2]), ("early", [1, 2, 3, 4]), ("on_time", [1, 2, 3, 4, 5])]


def test_discarding_a_pane_has_what_came_since_the_last() -> None:
    window = watched(EACH_TWO, accumulate=False)
    window.add(1, 2, 3, 4, 5)
    window.advance(10)
    assert kinds(window) == [("early", [1, 2]), ("early", [3, 4]), ("on_time", [5])]


def test_discarding_there_is_no_empty_pane() -> None:
    window = watched(EACH_TWO, accumulate=False)
    window.add(1, 2)
    window.advance(10)
    assert kinds(window) == [("early", [1, 2])]


def test_discarding_a_trigger_that_has_fired_does_not_fire_again() -> None:
    window = watched(TWO, accumulate=False)
    window.add(1, 2, 3, 4, 5)
    window.advance(10)
    assert kinds(window) == [("early", [1, 2]), ("on_time", [3, 4, 5])]


@pytest.mark.parametrize(("trigger", "fires"), [(Trigger(first=3), [4, 9]), (Trigger(last=3), [9])])
def test_time_is_told_from_the_first_message_or_the_last(trigger: Trigger, fires: list[int]) -> None:
    window = watched(Trigger(trigger.count, trigger.first, trigger.last, repeats=True), by=Tumbling(20))
    found: list[int] = []
    for watermark in range(15):
        if watermark in (1, 4, 6):
            window.add(watermark)
        window.advance(watermark)
        found += [watermark for _ in window.take()]
    assert found == fires


def test_a_time_at_the_end_of_the_window_is_the_window_s_own() -> None:
    window = watched(Trigger(first=9))
    window.add(1)
    window.advance(10)
    assert kinds(window) == [("on_time", [1])]


def test_where_time_jumps_past_the_end_only_the_window_fires() -> None:
    window = watched(Trigger(first=3))
    window.add(1)
    window.advance(30)
    assert kinds(window) == [("on_time", [1])]


def test_triggers_and_ends_take_their_turns_by_time() -> None:
    window = watched(Trigger(first=3))
    window.add(1, 21)
    window.advance(25)
    assert window.firings == [10, 24]
    assert window.take() == [Shown(0, 10, [1]), Shown(20, 30, [21], "early")]


def test_a_trigger_for_late_ones_begins_at_the_end_and_leaves_its_rest_to_the_last_pane() -> None:
    window = watched(late=EACH_TWO, lateness=20)
    window.add(1)
    window.advance(10)
    window.add(2, 3, 4)
    assert kinds(window) == [("on_time", [1]), ("late", [1, 2, 3])]
    window.advance(29)
    assert window.take() == []
    window.advance(30)
    assert kinds(window) == [("late", [1, 2, 3, 4])]


def test_a_late_message_counts_from_the_watermark() -> None:
    window = watched(late=Trigger(first=3), lateness=20)
    window.add(1)
    window.advance(12)
    window.take()
    window.add(2)
    window.advance(14)
    assert window.take() == []
    window.advance(15)
    assert kinds(window) == [("late", [1, 2])]


def test_at_the_end_of_input_each_window_fires_once() -> None:
    window = watched(Trigger(first=3), Trigger(count=9), lateness=20)
    window.add(1, 11)
    window.advance(10)
    window.add(2)
    window.take()
    window.advance(END)
    assert kinds(window) == [("on_time", [11]), ("late", [1, 2])]


def test_what_is_out_does_not_change() -> None:
    window = watched(AT_ONCE)
    window.add(1)
    (first,) = window.take()
    window.add(2)
    assert first.value == [1]


def test_hopping_windows_are_watched_each_by_itself() -> None:
    window = watched(TWO, by=Hopping(10, 5))
    window.add(6, 3, 11)
    assert window.take() == [Shown(0, 10, [6, 3], "early"), Shown(5, 15, [6, 11], "early")]


def test_a_message_is_late_if_it_is_late_for_all_its_windows() -> None:
    window = watched(by=Hopping(10, 5))
    window.advance(12)
    window.add(7, 1)
    assert window.late == [1]
    window.advance(END)
    assert window.take() == [Shown(5, 15, [7])]


class TestUnbounded:
    def test_it_fires_by_its_trigger_with_the_time_of_its_latest_message(self) -> None:
        window = watched(EACH_TWO, by=Unbounded())
        window.add(5, 3, 1, 2)
        window.advance(END)
        assert window.times == [5, 5, 5]
        assert kinds(window) == [("early", [5, 3]), ("early", [5, 3, 1, 2]), ("on_time", [5, 3, 1, 2])]

    def test_nothing_is_late_and_time_does_nothing(self) -> None:
        window = watched(EACH_TWO, by=Unbounded())
        window.advance(1_000_000)
        window.add(1)
        assert (window.late, window.operator.next_due()) == ([], END)

    def test_it_goes_on_after_the_end_of_input_which_shows_only_what_is_new(self) -> None:
        window = watched(EACH_TWO, by=Unbounded())
        window.add(1)
        window.operator.advance(END)
        window.operator.advance(END)
        window.add(2)
        assert kinds(window) == [("on_time", [1]), ("early", [1, 2])]


TRIGGERS = triggers(st.integers(1, 8))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "advance"]), st.integers(0, 60)), max_size=30)


@pytest.mark.slow
@given(TRIGGERS, TRIGGERS, st.integers(0, 20), st.booleans(), st.sampled_from([Tumbling(10), Hopping(10, 4)]), STEPS)
def test_a_restart_at_any_time_changes_nothing_and_in_the_end_nothing_is_left(
    early: Trigger, late: Trigger, lateness: int, accumulate: bool, by: Any, steps: list[tuple[str, int]]
) -> None:
    options: dict[str, Any] = {"lateness": lateness, "accumulate": accumulate}
    whole, broken = (watched(early, late, by, **options) for _ in range(2))
    for kind, number in steps:
        for window in (whole, broken):
            if kind == "add":
                window.add(number)
            else:
                window.advance(max(number, window.watermark))
        broken = broken.restarted()
    for window in (whole, broken):
        window.advance(max(200, window.watermark))
    assert (broken.panes, broken.late) == (whole.panes, whole.late)
    assert [*broken.restarted().backend.scan(b"")] == []


def test_what_was_taken_back_is_not_there() -> None:
    window = watched(TWO, by=Hopping(10, 5))
    window.add(6)
    take_back = window.operator.undo(b"k", 7)
    window.operator.add(b"k", 7, 7, (), START)
    window.take()
    take_back()
    window.advance(END)
    assert [pane.value for pane in window.take()] == [[6], [6]]


def test_windows_that_share_a_message_do_not_share_what_becomes_of_it() -> None:
    def grow(one: list[int], other: list[int]) -> list[int]:
        one += other
        return one

    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=list[int])
    numbers.window(hopping(timedelta(milliseconds=10), every=timedelta(milliseconds=5)), reduce(grow), id="w").map(
        lambda pane: pane.value
    ).send_to("out")
    with PipelineDriver(pipeline) as driver:
        for at in (5, 6, 7):
            driver.send("in", [at], key="k", timestamp=at)
        driver.end()
        assert [message.value for message in driver.read("out")] == [[5, 6, 7], [5, 6, 7]]


def test_time_that_passed_while_the_input_had_ended_lets_a_trigger_fire_when_more_comes() -> None:
    window = watched(Trigger(first=10, repeats=True), by=Unbounded())
    window.add(0)
    window.advance(END)
    window.take()
    window.advance(60)
    window.add(61)
    window.advance(61)
    assert [pane.value for pane in window.take()] == [[0, 61]]

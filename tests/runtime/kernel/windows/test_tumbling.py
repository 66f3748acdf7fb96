"""Tumbling windows: what falls in which, when each fires, until when it takes late messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lone_windows import LoneWindow, Shown
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator


def tens(**options: Any) -> LoneWindow:
    return LoneWindow(lambda context: TumblingOperator(context, 10), **options)


@given(st.lists(st.integers(-50, 50), max_size=20))
def test_each_message_is_in_the_window_around_it_and_windows_fire_in_order(times: list[int]) -> None:
    window = tens()
    window.add(*times)
    window.advance(END)
    starts = sorted({time // 10 * 10 for time in times})
    held = [[time for time in times if start <= time < start + 10] for start in starts]
    assert window.panes == [Shown(start, start + 10, value) for start, value in zip(starts, held, strict=True)]


def test_a_window_fires_when_time_is_at_its_end_and_once() -> None:
    window = tens()
    window.add(0, 9, 10)
    window.advance(9)
    assert (window.take(), window.operator.next_due()) == ([], 10)
    window.advance(10)
    assert (window.take(), window.operator.next_due()) == ([Shown(0, 10, [0, 9])], 20)
    window.advance(19)
    assert (window.take(), window.firings) == ([], [10])


@pytest.mark.parametrize(("watermark", "late"), [(9, []), (14, []), (15, [3]), (16, [3])])
def test_a_message_is_late_once_end_and_lateness_are_reached(watermark: int, late: list[int]) -> None:
    window = tens(lateness=5)
    window.advance(watermark)
    window.add(3)
    assert window.late == late


@pytest.mark.parametrize(("accumulate", "second"), [(True, [1, 2]), (False, [2])])
def test_a_late_message_fires_its_window_again_at_once(accumulate: bool, second: list[int]) -> None:
    window = tens(lateness=5, accumulate=accumulate)
    window.add(1)
    window.advance(10)
    window.add(2)
    assert window.panes == [Shown(0, 10, [1]), Shown(0, 10, second, "late")]


def test_a_late_message_does_not_change_a_pane_that_is_out() -> None:
    window = tens(lateness=5)
    window.add(1)
    window.advance(10)
    first = window.panes[0]
    window.add(2)
    assert first.value == [1]


def test_keys_have_windows_of_their_own() -> None:
    window = tens()
    window.add(2, 3, key=b"b")
    window.add(1, key=b"a")
    window.advance(END)
    assert [pane.value for pane in window.panes] == [[1], [2, 3]]


def test_a_message_without_key_is_refused() -> None:
    window: Any = tens()
    with pytest.raises(TypeError, match="without key"):
        window.add(1, key=None)


def test_what_was_taken_back_is_not_there() -> None:
    window = tens()
    for time in (11, 1):
        take_back = window.operator.undo(b"k", time)
        window.add(time)
        take_back()
        assert window.operator.next_due() == END
    window.advance(END)
    assert window.panes == []


@given(st.lists(st.integers(0, 12), max_size=12), st.sets(st.integers(0, 12)), st.booleans())
def test_a_restart_changes_nothing(steps: list[int], restarts: set[int], accumulate: bool) -> None:
    """Each step is a message, up to 6 behind the latest, and moves time to 2 behind the latest."""
    straight, stopped = (tens(lateness=4, accumulate=accumulate) for _ in range(2))
    latest = 0
    for number, step in enumerate(steps):
        latest += max(0, step - 6)
        if number in restarts:
            stopped = stopped.restarted()
        for one in (straight, stopped):
            one.add(latest + min(0, step - 6))
            one.advance(latest - 2)
    for one in (straight, stopped):
        one.advance(END)
    assert (stopped.panes, stopped.late) == (straight.panes, straight.late)


def test_a_window_that_fired_at_an_end_of_input_goes_on_in_the_next_run() -> None:
    window = tens(keeps=True)
    window.add(1, 12)
    assert window.end() == [Shown(0, 10, [1]), Shown(10, 20, [12])]
    window = window.restarted()
    window.add(2)
    assert window.end() == [Shown(0, 10, [1, 2])]
    window = window.restarted()
    assert window.end() == []
    window.add(31)
    window.advance(31)
    assert window.take() == []
    assert window.restarted().end() == [Shown(30, 40, [31])]
    assert not window.operator.changed


@given(st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=6), st.data())
def test_however_ends_of_input_cut_it_the_last_pane_of_a_window_is_that_of_one_run(
    runs: list[list[int]], data: st.DataObject
) -> None:
    """Time moves between runs, but makes nothing late."""
    window, last = tens(keeps=True), dict[int, list[int]]()
    for number, times in enumerate(runs):
        window.add(*times)
        still = [time for rest in runs[number + 1 :] for time in rest]
        reached = data.draw(st.integers(0, min(still, default=60) // 10 * 10), label="watermark")
        window.advance(max(window.watermark, reached))
        for pane in (*window.take(), *window.end()):
            assert pane.kind == "on_time"
            assert pane.value != last.get(pane.start)
            last[pane.start] = pane.value
        window = window.restarted()
    sent = [time for times in runs for time in times]
    assert window.late == []
    assert last == {
        start: [time for time in sent if time // 10 * 10 == start] for start in {t // 10 * 10 for t in sent}
    }

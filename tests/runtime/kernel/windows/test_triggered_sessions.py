"""Sessions that triggers watch."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from engines.lone_windows import LoneWindow, Shown
from fluvial.dsl.windows.triggers import Trigger
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.sessions import SessionOperator
from fluvial.runtime.kernel.windows.triggered_sessions import TriggeredSessionOperator
from fluvial.runtime.kernel.windows.triggers import AT_ONCE, NEVER
from generators.some_triggers import triggers

GAP = 5
EACH_TWO = Trigger(count=2, repeats=True)


def watched(early: Trigger = NEVER, late: Trigger = AT_ONCE, **options: Any) -> LoneWindow:
    return LoneWindow(lambda context: TriggeredSessionOperator(context, GAP, early, late), **options)


def test_an_early_pane_is_of_the_session_so_far_and_the_next_takes_its_place() -> None:
    window = watched(EACH_TWO)
    window.add(0, 3)
    window.add(5)
    window.advance(11)
    early, on_time = window.take()
    assert early == Shown(0, 9, [0, 3], "early")
    assert on_time == Shown(0, 11, [0, 3, 5], "on_time", ((0, 9),))


def test_discarding_a_session_stays_one_session() -> None:
    window = watched(EACH_TWO, accumulate=False)
    window.add(0, 3, 5)
    window.advance(11)
    assert [(pane.start, pane.end, pane.value) for pane in window.take()] == [(0, 9, [0, 3]), (0, 11, [5])]


def test_discarding_there_is_no_empty_pane() -> None:
    window = watched(EACH_TWO, accumulate=False)
    window.add(0, 3)
    window.advance(60)
    assert [pane.kind for pane in window.take()] == ["early"]
    assert window.operator.next_due() == END


def test_sessions_that_become_one_have_seen_what_both_have() -> None:
    window = watched(Trigger(count=3))
    window.add(0, 10)
    assert window.take() == []
    window.add(5)
    assert window.take() == [Shown(0, 16, [0, 10, 5], "early")]


def test_time_since_the_last_message_is_counted_anew_from_each() -> None:
    window = watched(Trigger(last=2))
    window.add(0)
    window.advance(1)
    window.add(1)
    window.advance(2)
    assert window.take() == []
    window.advance(3)
    assert window.take() == [Shown(0, 7, [0, 1], "early")]


def test_what_comes_late_waits_for_its_trigger_or_the_end_of_lateness() -> None:
    window = watched(late=EACH_TWO, lateness=20)
    window.add(0)
    window.advance(10)
    window.add(1, 2, 3)
    assert [(pane.kind, pane.value) for pane in window.take()] == [("on_time", [0]), ("late", [0, 1, 2])]
    window.advance(28)
    assert window.take() == []
    window.advance(29)
    assert [(pane.kind, pane.value) for pane in window.take()] == [("late", [0, 1, 2, 3])]


def test_what_waits_for_its_late_trigger_is_not_forgotten() -> None:
    window = watched(late=EACH_TWO, lateness=50)
    window.add(30)
    window.advance(30)
    window.add(0, 30)
    window.advance(END)
    assert sorted((pane.kind, pane.value) for pane in window.take()) == [("late", [0]), ("on_time", [30, 30])]


def test_one_that_goes_on_beyond_the_watermark_is_early_again() -> None:
    window = watched(EACH_TWO, Trigger(count=9), lateness=20)
    window.add(0)
    window.advance(6)
    window.add(5)
    assert [pane.kind for pane in window.take()] == ["on_time"]
    window.add(7)
    assert [(pane.kind, pane.end) for pane in window.take()] == [("early", 13)]
    window.advance(13)
    assert [(pane.kind, pane.value) for pane in window.take()] == [("on_time", [0, 5, 7])]


def test_at_the_end_of_input_each_session_fires_once() -> None:
    window = watched(Trigger(first=2), Trigger(count=9), lateness=50)
    window.add(0)
    window.advance(20)
    window.add(1, 30)
    window.take()
    window.advance(END)
    assert sorted((pane.kind, pane.value) for pane in window.take()) == [("late", [0, 1]), ("on_time", [30])]


TRIGGERS = triggers(st.integers(1, 8))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "advance"]), st.integers(0, 60)), max_size=30)


def run(window: LoneWindow, steps: list[tuple[str, int]], *, restarts: bool = False) -> LoneWindow:
    for kind, number in steps:
        if kind == "add":
            window.add(number)
        else:
            window.advance(max(number, window.watermark))
        window = window.restarted() if restarts else window
    window.advance(max(500, window.watermark))
    return window


@given(TRIGGERS, TRIGGERS, st.integers(0, 20), st.booleans(), STEPS)
def test_a_restart_at_any_time_changes_nothing_and_in_the_end_nothing_is_left(
    early: Trigger, late: Trigger, lateness: int, accumulate: bool, steps: list[tuple[str, int]]
) -> None:
    options: dict[str, Any] = {"lateness": lateness, "accumulate": accumulate}
    whole = run(watched(early, late, **options), steps)
    broken = run(watched(early, late, **options), steps, restarts=True)
    assert (broken.panes, broken.late) == (whole.panes, whole.late)
    assert [*broken.restarted().backend.scan(b"")] == []


@given(st.integers(0, 20), st.booleans(), STEPS)
def test_triggers_that_do_as_sessions_do_by_themselves_change_nothing(
    lateness: int, accumulate: bool, steps: list[tuple[str, int]]
) -> None:
    options: dict[str, Any] = {"lateness": lateness, "accumulate": accumulate}
    plain = run(LoneWindow(lambda context: SessionOperator(context, GAP), **options), steps)
    same = run(watched(**options), steps)
    assert (same.panes, same.late) == (plain.panes, plain.late)


def test_what_came_late_is_shown_when_the_lateness_has_become_shorter() -> None:
    """A span that waits for its late trigger is not forgotten by the shorter lateness, also beside another."""
    window = watched(late=Trigger(count=2), lateness=60)
    window.add(0)
    window.advance(10)
    window.add(1)
    window.advance(20)
    window.add(30)
    shorter = window.restarted(lateness=5)
    assert shorter.take() == [Shown(0, 6, [0])]
    shorter.add(31)
    shorter.advance(200)
    assert shorter.take() == [Shown(0, 7, [0, 1], "late", ((0, 6),)), Shown(30, 37, [30, 31])]
    assert shorter.operator.next_due() == END


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=20), st.integers(0, 60))
@example(steps=[(0, 10)], grown=20)
def test_all_sessions_are_forgotten_though_the_lateness_grew(steps: list[tuple[int, int]], grown: int) -> None:
    """Where they would have been forgotten under the lateness before, too."""
    window = watched(lateness=5)
    for time, watermark in steps:
        window.add(time)
        window.advance(max(watermark, window.watermark))
    longer = window.restarted(lateness=5 + grown)
    longer.advance(max(20, longer.watermark))
    longer.advance(1000)
    assert [*longer.restarted().backend.scan(b"window\0k")] == []
    assert longer.operator.next_due() == END

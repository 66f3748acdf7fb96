"""Sessions: messages joined by a chain of gaps, whatever the order of arrival."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lone_windows import LoneWindow, Shown
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.sessions import SessionOperator

GAP = 5


def sessions(**options: Any) -> LoneWindow:
    return LoneWindow(lambda context: SessionOperator(context, GAP), **options)


def chains(times: list[int]) -> list[list[int]]:
    """The times in order, cut where two neighbours are more than the gap apart."""
    found: list[list[int]] = []
    for time in sorted(times):
        if found and time - found[-1][-1] <= GAP:
            found[-1].append(time)
        else:
            found.append([time])
    return found


def whole(chain: list[int]) -> tuple[int, int, list[int]]:
    return chain[0], chain[-1] + GAP + 1, sorted(chain)


@given(st.lists(st.integers(-60, 60), max_size=20))
def test_two_messages_are_in_one_session_iff_a_chain_of_gaps_joins_them(times: list[int]) -> None:
    window = sessions()
    window.add(*times)
    window.advance(END)
    found = [(pane.start, pane.end, sorted(pane.value)) for pane in window.panes]
    assert sorted(found) == [whole(chain) for chain in chains(times)]
    assert {(pane.kind, pane.replaces) for pane in window.panes} <= {("on_time", ())}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=20))
def test_the_panes_that_nothing_has_replaced_are_the_chains(steps: list[tuple[int, int]]) -> None:
    """Each step is a message, after which time moves; the lateness is such that no session is forgotten."""
    window = sessions(lateness=60)
    for time, watermark in steps:
        window.add(time)
        window.advance(max(watermark, window.watermark))
    window.advance(END)
    standing: dict[tuple[int, int], list[int]] = {}
    for pane in window.panes:
        for past in pane.replaces:
            del standing[past]
        standing[pane.start, pane.end] = sorted(pane.value)
    assert standing == {whole(chain)[:2]: chain for chain in chains([time for time, _ in steps])}


@pytest.mark.parametrize(
    ("apart", "panes"), [(GAP, [Shown(0, 11, [0, 5])]), (6, [Shown(0, 6, [0]), Shown(6, 12, [6])])]
)
def test_messages_just_a_gap_apart_are_together(apart: int, panes: list[Shown]) -> None:
    for times in ((0, apart), (apart, 0)):
        window = sessions()
        window.add(*times)
        window.advance(END)
        assert [(*pane[:2], sorted(pane.value)) for pane in window.panes] == [pane[:3] for pane in panes]


def test_a_session_fires_when_time_is_at_its_end_and_once() -> None:
    window = sessions()
    window.add(0, 4)
    window.advance(9)
    assert (window.take(), window.operator.next_due() <= 10) == ([], True)
    window.advance(10)
    assert (window.take(), window.firings[-1]) == ([Shown(0, 10, [0, 4])], 10)
    window.advance(1000)
    assert (window.take(), window.operator.next_due()) == ([], END)


def test_a_session_that_has_grown_does_not_fire_at_the_time_that_was_set_for_it_before() -> None:
    window = sessions()
    window.add(0, 1)
    window.advance(6)
    assert window.take() == []
    window.advance(7)
    assert window.take() == [Shown(0, 7, [0, 1])]


def test_a_session_that_one_message_could_join_to_the_next_stays_as_long_as_that() -> None:
    window = sessions()
    window.add(0, 10)
    window.advance(15)
    window.add(5)
    window.advance(END)
    assert window.panes == [Shown(0, 6, [0]), Shown(0, 16, [0, 10, 5], replaces=((0, 6),))]


@pytest.mark.parametrize(("watermark", "late"), [(15, []), (16, [0])])
def test_a_message_is_late_once_the_end_of_its_session_and_lateness_are_reached(
    watermark: int, late: list[int]
) -> None:
    window = sessions(lateness=10)
    window.advance(watermark)
    window.add(0)
    assert window.late == late


def test_a_message_that_joins_a_session_in_time_is_not_late_however_old() -> None:
    window = sessions()
    window.add(5)
    window.advance(9)
    window.add(1)
    window.advance(END)
    assert (window.late, window.panes) == ([], [Shown(1, 11, [5, 1])])


def test_a_late_message_between_two_sessions_replaces_both() -> None:
    window = sessions(lateness=20)
    window.add(0, 10)
    window.advance(16)
    window.add(5)
    assert window.take() == [
        Shown(0, 6, [0]),
        Shown(10, 16, [10]),
        Shown(0, 16, [0, 10, 5], "late", ((0, 6), (10, 16))),
    ]


def test_without_accumulation_a_late_pane_holds_what_is_new() -> None:
    window = sessions(lateness=20, accumulate=False)
    window.add(0)
    window.advance(9)
    window.add(3)
    assert window.take() == [Shown(0, 6, [0]), Shown(0, 9, [3], "late", ((0, 6),))]


def test_what_was_emitted_is_not_merged_again_without_accumulation() -> None:
    window = sessions(lateness=20, accumulate=False)
    window.add(0, 10)
    window.advance(16)
    window.add(5)
    assert window.panes[-1] == Shown(0, 16, [5], "late", ((0, 6), (10, 16)))


def test_a_message_without_key_is_refused() -> None:
    window: Any = sessions()
    with pytest.raises(TypeError, match="without key"):
        window.add(1, key=None)


def test_what_was_taken_back_is_not_there() -> None:
    window = sessions()
    window.add(0, 10)
    take_back = window.operator.undo(b"k", 5)
    window.add(5)
    take_back()
    window.advance(END)
    assert window.panes == [Shown(0, 6, [0]), Shown(10, 16, [10])]


@pytest.mark.parametrize(("watermark", "windows"), [(10, [(0, 6), (0, 12)]), (11, [(0, 6), (3, 12)])])
def test_a_session_is_remembered_for_one_gap_more_than_its_lateness(
    watermark: int, windows: list[tuple[int, int]]
) -> None:
    window = sessions()
    window.add(0)
    window.advance(watermark)
    window.add(6, 3)  # not late, and 3 would join 6 to 0
    window.advance(END)
    assert [(pane.start, pane.end) for pane in window.panes] == windows


def test_nothing_is_kept_of_a_session_that_is_over() -> None:
    window = sessions(lateness=3)
    window.add(0)
    over = 6 + 3 + GAP
    entries = []
    for watermark in (over - 1, over):
        window.advance(watermark)
        window = window.restarted()
        entries.append(len([*window.backend.scan(b"")]))
    assert entries == [2, 0]  # its spans and a timer


@given(st.lists(st.integers(0, 14), max_size=12), st.sets(st.integers(0, 12)), st.booleans())
def test_a_restart_changes_nothing(steps: list[int], restarts: set[int], accumulate: bool) -> None:
    """Each step is a message, up to 7 behind the latest, and moves time to 2 behind the latest."""
    straight, stopped = (sessions(lateness=4, accumulate=accumulate) for _ in range(2))
    latest = 0
    for number, step in enumerate(steps):
        latest += max(0, step - 7)
        if number in restarts:
            stopped = stopped.restarted()
        for one in (straight, stopped):
            one.add(latest + min(0, step - 7))
            one.advance(latest - 2)
    for one in (straight, stopped):
        one.advance(END)
    assert (stopped.panes, stopped.late) == (straight.panes, straight.late)


def test_sessions_of_a_key_that_are_due_together_fire_once_each_though_memory_is_freed_between() -> None:
    window = sessions()
    window.add(0, 5 * GAP)
    window = window.restarted()
    window.advance(20 * GAP)
    assert window.take() == [Shown(0, GAP + 1, [0]), Shown(5 * GAP, 6 * GAP + 1, [5 * GAP])]

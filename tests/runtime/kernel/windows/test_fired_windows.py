"""Windows over ends of input: what is read as upserts by window does not depend on how runs cut the input."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engines.lone_windows import LoneWindow, Shown
from faults.mutants import Mutant, Rewritten, planted
from fluvial.dsl.windows.assigners import Hopping, Tumbling
from fluvial.dsl.windows.triggers import after_count, repeat
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.windows.fired_windows import FiredWindows, FiredWindowsOfTask
from fluvial.runtime.kernel.windows.sessions import SessionOperator
from fluvial.runtime.kernel.windows.triggered import TriggeredWindowOperator
from fluvial.runtime.kernel.windows.triggered_sessions import TriggeredSessionOperator
from fluvial.runtime.kernel.windows.triggers import AT_ONCE, NEVER
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator

TWICE = repeat(after_count(2))
MAKES: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda context: TumblingOperator(context, 10),
    "hopping": lambda context: TriggeredWindowOperator(context, Hopping(10, 5), NEVER, AT_ONCE),
    "early": lambda context: TriggeredWindowOperator(context, Tumbling(10), TWICE, AT_ONCE),
    "late": lambda context: TriggeredWindowOperator(context, Tumbling(10), NEVER, TWICE),
    "sessions": lambda context: SessionOperator(context, 5),
    "early sessions": lambda context: TriggeredSessionOperator(context, 5, TWICE, AT_ONCE),
    "late sessions": lambda context: TriggeredSessionOperator(context, 5, NEVER, TWICE),
}
View = dict[tuple[int, int], list[int]]


def apply(view: View, panes: Iterable[Shown]) -> None:
    """Read panes as upserts by window."""
    for pane in panes:
        for window in pane.replaces:
            view.pop(window, None)
        view[pane.start, pane.end] = sorted(pane.value)


def assert_no_end_parts(which: str, runs: list[list[int]], lateness: int, data: st.DataObject) -> None:
    """Fail unless runs that end behind each list of times have the windows of one run. Time moves between runs, but
    makes nothing late; messages may come behind the end of their window."""
    window = LoneWindow(MAKES[which], keeps=True, lateness=lateness)
    whole = LoneWindow(MAKES[which], lateness=lateness)
    found, wanted = View(), View()
    for number, times in enumerate(runs):
        for one in (window, whole):
            one.add(*times)
        still = [time for rest in runs[number + 1 :] for time in rest]
        reached = max(window.watermark, data.draw(st.integers(0, min(still, default=60) + lateness), label="watermark"))
        window.advance(reached)
        apply(found, window.take())
        at_end = window.end()
        assert at_end == sorted(at_end, key=lambda pane: pane.end)
        assert window.end() == []  # all has been shown
        apply(found, at_end)
        whole.advance(reached)
        window = window.restarted()
    apply(wanted, [*whole.take(), *whole.end()])
    assert (found, window.late) == (wanted, whole.late)


RUNS = st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=6)


@pytest.mark.parametrize("which", MAKES)
@given(runs=RUNS, lateness=st.sampled_from((0, 7)), data=st.data())
def test_however_ends_of_input_cut_it_the_windows_are_those_of_one_run(
    which: str, runs: list[list[int]], lateness: int, data: st.DataObject
) -> None:
    assert_no_end_parts(which, runs, lateness, data)


MUTANTS: list[tuple[str, Mutant]] = [
    (
        "tumbling",
        Rewritten("no key is marked as changed", TumblingOperator, "_add", "changed.fresh(end)[key] = True", "pass"),
    ),
    ("tumbling", Rewritten("what fired fires again", TumblingOperator, "_not_fired", "end <= done.at_end", "False")),
    (
        "hopping",
        Rewritten(
            "what fired fires again",
            TriggeredWindowOperator,
            "_fire_at_end",
            "held.shown, held.open = (True, False)",
            "pass",
        ),
    ),
    ("sessions", Rewritten("what fired fires again", SessionOperator, "_show", "span.shown = True", "pass")),
    ("sessions", Rewritten("a session that grew stays shown", SessionOperator, "_adder", "span.shown = False", "pass")),
    ("early sessions", Rewritten("what fired fires again", SessionOperator, "_show", "span.shown = True", "pass")),
]


@pytest.mark.parametrize(("which", "mutant"), MUTANTS, ids=str)
def test_a_firing_that_is_not_remembered_is_noticed(which: str, mutant: Mutant) -> None:
    @settings(max_examples=200, database=None, derandomize=True, phases=[Phase.generate])
    @given(RUNS, st.sampled_from((0, 7)), st.data())
    def check(runs: list[list[int]], lateness: int, data: st.DataObject) -> None:
        assert_no_end_parts(which, runs, lateness, data)

    with planted(mutant), pytest.raises(AssertionError):
        check()


def test_what_has_fired_is_kept_with_the_position() -> None:
    fired = FiredWindowsOfTask(Position(fired_at_end={"gone": 5, "w": 10}, cursors={"gone": (7, b"k")}))
    assert (fired.of("w").at_end, fired.of("new").at_end) == (10, START)
    fired.of("w").end(20)
    fired.of("w").pause(30, b"m")
    position = Position()
    fired.add_to(position)
    assert position.fired_at_end == {"gone": 5, "w": 20}
    assert position.cursors == {"gone": (7, b"k"), "w": (30, b"m")}


def test_a_cursor_counts_for_windows_of_its_end_until_all_of_them_have_fired() -> None:
    fired = FiredWindows(cursor=(30, b"m"))
    assert [fired.has(30, b"k"), fired.has(30, b"m"), fired.has(30, b"n"), fired.has(20, b"a")] == [
        True,
        True,
        False,
        False,
    ]
    fired.complete(20)
    assert fired.has(30, b"m")
    fired.complete(30)
    assert not fired.has(30, b"m")

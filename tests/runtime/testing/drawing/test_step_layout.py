"""The layout by steps: order from top to bottom, time from left to right, the watermark between."""

from itertools import pairwise

from fluvial.dsl import after_count
from fluvial.runtime.testing.drawing.figure import Figure
from fluvial.runtime.testing.drawing.frame import ROW, WIDTH, Options
from fluvial.runtime.testing.drawing.labels import value_label
from fluvial.runtime.testing.drawing.step_layout import by_step
from tests.runtime.testing.drawing.runs import shares, windows

OPTIONS = Options(streams=("in", "out"), label=value_label)


def places(figure: Figure) -> dict[int, float]:
    """Where each second stands, by the ticks of the axis."""
    first, last = figure.ticks[0], figure.ticks[-1]
    second = (last.x - first.x) / (int(last.label) - int(first.label))
    return {number: round(first.x + number * second, 1) for number in range(21)}


def test_each_message_has_a_row_and_what_comes_of_it_stands_below() -> None:
    figure = by_step(windows(), OPTIONS)
    rows = [(row.number, row.title, row.key) for row in figure.rows]
    assert rows == [
        ("1", "in", "ann"),
        ("2", "in", "bob"),
        ("3", "in", "ann"),
        ("", "out", "ann"),
        ("", "out", "bob"),
        ("4", "in", "bob"),
        ("5", "end of input", ""),
        ("", "out", "ann"),
    ]
    assert all(below.y - row.y == ROW for row, below in pairwise(figure.rows))


def test_marks_stand_at_their_times_and_bars_over_their_windows() -> None:
    figure = by_step(windows(), OPTIONS)
    ticks = places(figure)
    assert [mark.x for mark in figure.marks if mark.label in "bd"] == [ticks[4], ticks[5]]
    assert [(bar.x, bar.x + bar.width, bar.label) for bar in figure.bars] == [
        (ticks[0], ticks[10], "a"),
        (ticks[0], ticks[10], "b"),
        (ticks[10], ticks[20], "c"),
    ]


def test_keys_have_signs_and_what_is_late_is_crossed_out() -> None:
    figure = by_step(windows(), OPTIONS)
    told = [(mark.label, mark.sign, mark.look) for mark in figure.marks]
    assert told == [("a", 0, "sent"), ("b", 1, "sent"), ("c", 0, "sent"), ("d", 1, "late")]


def test_the_watermark_moves_below_each_message_and_to_the_edge_at_the_end() -> None:
    figure = by_step(windows(), OPTIONS)
    ticks = places(figure)
    turns = list(dict.fromkeys(x for x, _ in figure.passed))
    assert turns == [figure.left, ticks[1], ticks[4], ticks[12], WIDTH - 14]
    assert [y for _, y in figure.passed] == sorted(y for _, y in figure.passed)
    late = figure.marks[-1]
    assert max(x for x, y in figure.passed if y <= late.y) > late.x


def test_where_nothing_is_kept_there_is_no_watermark() -> None:
    assert by_step(shares(), Options(streams=("numbers", "shares"), label=str)).passed == ()


def test_a_step_of_streams_that_are_not_drawn_keeps_its_number() -> None:
    figure = by_step(windows(), Options(streams=("out",), label=str))
    assert [row.title for row in figure.rows if row.number] == ["sent elsewhere"] * 4 + ["end of input"]


def test_early_and_late_panes_are_told_apart() -> None:
    run = windows(trigger=after_count(1))
    assert [bar.look for bar in by_step(run, OPTIONS).bars] == [
        "early",
        "early",
        "early",
        "on_time",
        "on_time",
        "on_time",
    ]

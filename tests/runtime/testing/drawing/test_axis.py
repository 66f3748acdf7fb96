"""The axis of time: its extent, its ticks, and what they are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.testing.drawing.axis import axis_of


@pytest.mark.parametrize(
    ("times", "ticks", "unit"),
    [
        ([0, 5], ["0", "1", "2", "3", "4", "5"], "milliseconds"),
        ([1000, 12_000], ["0", "2", "4", "6", "8", "10", "12"], "seconds"),
        ([0, 5 * 60_000], ["0", "1", "2", "3", "4", "5"], "minutes"),
        ([0, 6 * 3_600_000], ["0", "1", "2", "3", "4", "5", "6"], "hours"),
        ([-4000, 1000], ["-4", "-3", "-2", "-1", "0", "1"], "seconds"),
        ([1_700_000_000_000, 1_700_000_030_000], ["22:13:20", "22:13:25", "22:13:30"], "UTC, 2023-11-14"),
    ],
)
def test_ticks_are_round_numbers(times: list[int], ticks: list[str], unit: str) -> None:
    axis = axis_of(times, 0, 100)
    assert [tick.label for tick in axis.ticks()][: len(ticks)] == ticks
    assert axis.unit == unit


@pytest.mark.parametrize("times", [[], [0], [7]])
def test_an_axis_has_an_extent_whatever_there_is(times: list[int]) -> None:
    axis = axis_of(times, 0, 100)
    assert axis.first < axis.last


@given(st.lists(st.integers(-(10**9), 10**13), min_size=1, max_size=5))
def test_all_times_have_a_place_in_their_order(times: list[int]) -> None:
    axis = axis_of(times, 100, 600)
    places = [axis.x(time) for time in sorted(times)]
    assert places == sorted(places)
    assert all(100 <= place <= 600 for place in places)
    assert axis.first <= min(times) <= max(times) <= axis.last


def test_what_lies_outside_stands_at_the_edge() -> None:
    axis = axis_of([0, 10], 0, 100)
    assert (axis.x(-5), axis.x(99)) == (0, 100)

"""The oracle's hopping windows and those without end, against results worked out by hand."""

from typing import Any

import pytest

from engines.one_window import by_window, first, ms, unending, windowed
from fluvial.dsl import after_count, hopping, repeat


@pytest.mark.parametrize(
    ("time", "windows"), [(7, [(0, 10), (5, 15)]), (5, [(0, 10), (5, 15)]), (-1, [(-10, 0), (-5, 5)])]
)
def test_a_message_is_in_all_hopping_windows_around_it(time: int, windows: list[tuple[int, int]]) -> None:
    found = by_window([("a", time)], hopping(ms(10), every=ms(5)), trigger=after_count(1))
    assert found == [(window, kind, [1]) for kind in ("early", "on_time") for window in windows]


def test_hopping_windows_begin_at_multiples_of_their_step() -> None:
    found = by_window([("a", 9)], hopping(ms(10), every=ms(4)))
    assert [window for window, *_ in found] == [(0, 10), (4, 14), (8, 18)]


def test_hopping_windows_are_watched_each_by_itself() -> None:
    found = by_window([("a", 2), ("a", 7)], hopping(ms(10), every=ms(5)), trigger=after_count(2))
    early = [(window, value) for window, kind, value in found if kind == "early"]
    assert early == [((0, 10), [1, 2])]


@pytest.mark.parametrize(
    ("tick", "lateness", "wanted"),
    [
        (12, 0, [((5, 15), "on_time", [2])]),
        (12, 3, [((0, 10), "late", [2]), ((5, 15), "on_time", [2])]),
        (15, 3, [((5, 15), "late", [2])]),
        (15, 0, []),
    ],
)
def test_a_message_goes_into_those_hopping_windows_that_are_not_over(
    tick: int, lateness: int, wanted: list[tuple[tuple[int, int], str, list[int]]]
) -> None:
    options: dict[str, Any] = {"lateness": ms(lateness), "late_to": "late"}
    assert by_window([("z", tick), ("a", 7)], hopping(ms(10), every=ms(5)), **options) == wanted
    late = windowed([("z", tick), ("a", 7)], hopping(ms(10), every=ms(5)), **options).get("late", [])
    assert [message.value for message in late] == ([] if wanted else [b"2"])


@pytest.mark.parametrize(("accumulate", "at_end"), [(True, (5, "on_time", [1, 2, 3])), (False, (4, "on_time", [3]))])
def test_a_window_without_end_has_the_time_of_its_latest_message(
    accumulate: bool, at_end: tuple[int, str, list[int]]
) -> None:
    found = unending([("a", 5), ("a", 3), ("a", 4)], trigger=repeat(after_count(2)), accumulate=accumulate)
    assert found == [(5, "early", [1, 2]), at_end]


@pytest.mark.parametrize(("accumulate", "kinds"), [(True, ["early", "on_time"]), (False, ["early"])])
def test_a_window_without_end_that_was_shown_early_is_shown_at_the_end_of_input_with_accumulation(
    accumulate: bool, kinds: list[str]
) -> None:
    found = unending([("a", 5), ("a", 3)], trigger=repeat(after_count(2)), accumulate=accumulate)
    assert [kind for _, kind, _ in found] == kinds


def test_a_window_without_end_takes_all_and_its_trigger_may_wait_as_long_as_it_likes() -> None:
    found = unending([("a", 0), ("z", 4000), ("a", 1), ("z", 5000), ("a", 2)], trigger=first(5000))
    assert found == [(1, "early", [1, 3]), (2, "on_time", [1, 3, 5])]

"""How ways become paths."""

from fluvial.planner.drawing.geometry import Point, joined_ways
from fluvial.planner.drawing.shapes import path_of


def test_a_straight_way_ends_under_its_head() -> None:
    assert path_of((Point(5, 0), Point(5, 40))) == "M5 0V34"


def test_a_way_swings_from_vertical_to_vertical() -> None:
    assert path_of((Point(0, 0), Point(10, 26))) == "M0 0C0 10 10 10 10 20"


def test_half_turns_lead_below_on_the_way_down_and_above_on_the_way_up() -> None:
    way = (Point(0, 0), Point(0, 50), Point(40, 50), Point(40, 10), Point(20, 10))
    assert path_of(way) == "M0 0V50C0 78 40 78 40 50V4C40 -24 20 -24 20 4"


def test_points_that_change_nothing_are_left_out() -> None:
    assert joined_ways((Point(0, 0), Point(0, 9)), (Point(0, 9), Point(0, 20))) == (Point(0, 0), Point(0, 20))
    assert len(joined_ways((Point(0, 0), Point(0, 9), Point(4, 9), Point(4, 0)))) == 4

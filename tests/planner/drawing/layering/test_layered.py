"""The steps of the layered layout: rows, their order, and places in them."""

from hypothesis import given
from hypothesis import strategies as st

from fluvial.planner.drawing.layering.coordinates import rising
from fluvial.planner.drawing.layering.layered import layered
from fluvial.planner.drawing.layering.order import crossings, ordered
from fluvial.planner.drawing.layering.ranks import backward, ranks
from fluvial.planner.drawing.layering.rows import Item, Link, in_rows


def items(names: str) -> list[Item]:
    return [Item(name, 40, 20) for name in names]


def links(*pairs: str) -> list[Link]:
    return [Link(pair[0], pair[1]) for pair in pairs]


def test_items_stand_below_all_that_leads_to_them() -> None:
    assert ranks("abcd", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], "", "") == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_a_start_stands_close_to_what_it_leads_to() -> None:
    assert ranks("abcx", [("a", "b"), ("b", "c"), ("x", "c")], "", "")["x"] == 1


def test_ports_keep_to_the_first_and_the_last_row() -> None:
    found = ranks("iabo", [("i", "b"), ("a", "b"), ("a", "o")], "i", "o")
    assert (found["i"], found["o"]) == (0, 3)


def test_what_is_linked_to_nothing_stands_in_the_lowest_row() -> None:
    assert ranks("abx", [("a", "b")], "", "")["x"] == 1


def test_the_link_that_closes_a_circle_leads_backward() -> None:
    assert backward("abc", [("a", "b"), ("b", "c"), ("c", "a")]) == {("c", "a")}
    assert backward("abc", [("a", "b"), ("a", "c"), ("b", "c")]) == set()


def test_a_crossing_that_need_not_be_is_removed() -> None:
    rows = in_rows(items("abcd"), links("ad", "bc"))
    assert crossings(rows, rows.rows) == 1
    assert crossings(rows, ordered(rows).rows) == 0


def test_a_long_link_gets_a_joint_in_each_row_that_it_passes() -> None:
    rows = in_rows(items("abc"), links("ab", "bc", "ac"))
    assert [len(row) for row in rows.rows] == [1, 2, 1]
    assert [len(chain) for chain in rows.chains] == [1, 1, 2]


def test_a_chain_stands_straight() -> None:
    found = layered([Item("a", 40, 20), Item("b", 90, 20), Item("c", 60, 20)], links("ab", "bc"))
    assert len({box.middle for box in found.boxes.values()}) == 1


def test_nothing_is_laid_out_as_nothing() -> None:
    assert layered([], []).boxes == {}


@given(st.lists(st.lists(st.tuples(st.floats(-100, 100), st.sampled_from([1.0, 2.0, 8.0])), min_size=1)))
def test_places_never_fall(wanted: list[list[tuple[float, float]]]) -> None:
    found = rising(wanted)
    assert found == sorted(found)
    assert len(found) == len(wanted)


def test_places_that_do_not_conflict_are_kept() -> None:
    assert rising([[(1.0, 1.0)], [(5.0, 1.0)], [(5.0, 1.0)]]) == [1.0, 5.0, 5.0]

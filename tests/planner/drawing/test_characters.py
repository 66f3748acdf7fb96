"""Widths of text, and what is left of a long one."""

from hypothesis import given
from hypothesis import strategies as st

from fluvial.planner.drawing.characters import clean, column_count, shorten, usual, width_of
from tests.planner.drawing.samples import texts


@given(texts, st.integers(20, 400))
def test_a_shortened_text_fits_and_begins_as_the_whole_one(text: str, room: int) -> None:
    short = shorten(clean(text), 13, room)
    assert width_of(short, 13) <= room
    assert short == clean(text) or clean(text).startswith(short.removesuffix("…"))


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert shorten("filter is_page", 13, 200) == "filter is_page"


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert shorten("filter is_page_of_the_shop", 10, 100) == "filter is_page_…"


def test_the_widths_of_ascii_are_known() -> None:
    assert usual("".join(map(chr, range(32, 127))))
    assert not usual("漢")


def test_columns_of_a_terminal() -> None:
    assert [column_count(text) for text in ("abc", "漢字", "e\u0301", "")] == [3, 4, 1, 0]


def test_control_characters_and_turns_of_direction_are_replaced() -> None:
    assert clean("a\x1bb\u202ec\nd\ud800") == "a\ufffdb\ufffdc d\ufffd"

"""Figures as SVG: nothing leaves the page, and each thing looks like what it is."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fluvial.runtime.testing.drawing.figure import Bar, CauseLine, Mark
from fluvial.runtime.testing.drawing.svg import write
from tests.runtime.testing.drawing.runs import EMPTY

BAR = Bar(150, 40, 100, 0, "late", "a, b", "about", note="late")


def texts(picture: str) -> dict[str, dict[str, str]]:
    return {found.text or "": found.attrib for found in ElementTree.fromstring(picture).iter() if "text" in found.tag}


def test_a_label_without_room_behind_its_mark_stands_before_it() -> None:
    mark = Mark(680, 46, None, "sent", "coffee", "about")
    behind, before = (texts(write(replace(EMPTY, marks=(replace(mark, before=side),)))) for side in (False, True))
    assert float(behind["coffee"]["x"]) > 680 > float(before["coffee"]["x"])
    assert before["coffee"]["text-anchor"] == "end"


def test_a_note_stands_behind_its_bar_and_within_where_there_is_no_room() -> None:
    behind = texts(write(replace(EMPTY, bars=(BAR,))))["late"]
    within = texts(write(replace(EMPTY, bars=(replace(BAR, width=536),))))["late"]
    assert float(behind["x"]) > 250
    assert (float(within["x"]), within["text-anchor"]) == (678, "end")


def test_a_label_without_room_in_its_bar_stands_behind_it_and_its_note_behind_that() -> None:
    found = texts(write(replace(EMPTY, bars=(replace(BAR, width=8, inside=False),))))
    assert 158 < float(found["a, b"]["x"]) < float(found["late"]["x"])


@pytest.mark.parametrize(
    ("link", "path"),
    [
        (CauseLine(10, 5, 10, 20), "M10 5V20"),
        (CauseLine(10, 5, 30, 20, corner=True), "M10 5H30V20"),
        (CauseLine(10, 5, 30, 25), "M10 5C10 15 30 15 30 25"),
    ],
)
def test_lines_are_straight_or_turn_once_or_swing(link: CauseLine, path: str) -> None:
    assert f'd="{path}"' in write(replace(EMPTY, links=(link,)))

"""Elements as text: whatever users wrote stays text."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.planner.drawing.xml import element, escaped

TEXTS = st.text(st.characters(min_codepoint=32, exclude_categories=("Cc", "Cs", "Cn")))


@given(TEXTS, TEXTS)
def test_what_is_written_is_read_again(content: str, attribute: str) -> None:
    read = ElementTree.fromstring(element("text", escaped(content), title=attribute))
    assert (read.text or "", read.get("title")) == (content, attribute)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"class_": "title"}, '<g class="title"/>'),
        ({"stroke_width": 2}, '<g stroke-width="2"/>'),
        ({"viewBox": "0 0 1 1"}, '<g viewBox="0 0 1 1"/>'),
        ({"x": 1.50}, '<g x="1.5"/>'),
        ({"x": None}, "<g/>"),
    ],
)
def test_attributes_are_named_and_written_as_svg_wants_them(options: dict[str, object], wanted: str) -> None:
    assert element("g", **options) == wanted


def test_contents_stand_one_behind_the_other() -> None:
    assert element("g", element("a"), element("b")) == "<g><a/><b/></g>"

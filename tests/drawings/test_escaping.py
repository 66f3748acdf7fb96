"""Whatever text a plan holds, every format keeps its form and the text can be read back from it."""

import json
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings

from fluvial.planner import draw
from fluvial.planner.drawing import FORMATS
from fluvial.planner.drawing.characters import clean, width_of
from fluvial.planner.drawing.scene import Drawing
from fluvial.planner.drawing.views import VIEWS
from generators.how_many import examples
from tests.planner.drawing.readers import Page, dot_texts, mermaid_texts
from tests.planner.drawing.samples import HOSTILE, texts, worded

SVG = "{http://www.w3.org/2000/svg}"
some = settings(max_examples=examples(160))


def words(drawing: Drawing) -> set[str]:
    """All lines of text of a scene."""
    lines = {line.text for node in drawing.nodes for line in node.lines}
    return lines | {edge.label for edge in drawing.edges if edge.label} | {group.title for group in drawing.groups}


@some
@given(texts)
def test_mermaid_gives_every_text_back(text: str) -> None:
    made = worded(text)
    for view, scene in VIEWS.items():
        assert words(scene(made)) <= set(mermaid_texts(draw(made, "mermaid", view=view)))


@some
@given(texts)
def test_dot_gives_every_text_back(text: str) -> None:
    made = worded(text)
    for view, scene in VIEWS.items():
        assert words(scene(made)) <= set(dot_texts(draw(made, "dot", view=view)))


@some
@given(texts)
def test_svg_is_xml_and_gives_every_title_back(text: str) -> None:
    made = worded(text)
    for view, scene in VIEWS.items():
        tree = ElementTree.fromstring(draw(made, "svg", view=view).encode())
        titles = {title.text for title in tree.iter(f"{SVG}title")}
        for node in scene(made).nodes:
            assert "\n".join((node.title, *(f"{name}: {fact}" for name, fact in node.facts))) in titles


@some
@given(texts)
def test_svg_shows_every_short_text_in_full(text: str) -> None:
    made = worded(text[:2])
    tree = ElementTree.fromstring(draw(made, "svg").encode())
    shown = {element.text for element in tree.iter(f"{SVG}text")}
    assert {node.title for node in VIEWS["operators"](made).nodes} <= shown


@some
@given(texts)
def test_svg_keeps_texts_within_their_boxes(text: str) -> None:
    tree = ElementTree.fromstring(draw(worded(text), "svg").encode())
    for group in tree.iter(f"{SVG}g"):
        if group.get("class", "").startswith(("node", "label")):
            frame = group.find(f"{SVG}rect")
            assert frame is not None
            assert all(wide(shown) <= float(frame.get("width", 0)) for shown in group.iter(f"{SVG}text"))


def wide(shown: ElementTree.Element) -> float:
    size = 13 if shown.get("class") == "title" else 0.93 * 12
    return float(shown.get("textLength") or width_of(shown.text or "", size))


@some
@given(texts)
def test_html_is_balanced_and_tells_every_fact(text: str) -> None:
    made = worded(text)
    page = Page(draw(made, "html"))
    facts, script = page.texts["script"]
    assert page.open == []
    assert script.strip().startswith('"use strict"')
    told = {
        view: [[node.title, list(map(list, node.facts))] for node in scene(made).nodes] for view, scene in VIEWS.items()
    }
    assert json.loads(facts) == told


@pytest.mark.parametrize("text", HOSTILE)
def test_html_has_the_same_elements_whatever_the_text(text: str) -> None:
    assert Page(draw(worded(text), "html")).elements == Page(draw(worded("plain"), "html")).elements


@some
@given(texts)
def test_text_keeps_to_its_lines(text: str) -> None:
    for view, scene in VIEWS.items():
        drawn = draw(worded(text), "text", view=view)
        assert len(drawn.splitlines()) == len(draw(worded("plain"), "text", view=view).splitlines())
        assert all(node.title in drawn for node in scene(worded(text)).nodes if node.title == node.title.rstrip())


@some
@given(texts)
@example("\x1b]0;title\x07")
def test_no_format_lets_a_control_character_through(text: str) -> None:
    for format in set(FORMATS) - {"json"}:
        drawn = draw(worded(text), format)
        assert not [letter for letter in drawn if letter < " " and letter != "\n"]
        assert not [letter for letter in drawn if "\u202a" <= letter <= "\u202e"]
        assert drawn.encode()


@given(texts)
def test_clean_text_is_one_line_and_stays_as_it_is(text: str) -> None:
    assert len(clean(f"x{text}x").splitlines()) == 1
    assert clean(clean(text)) == clean(text)

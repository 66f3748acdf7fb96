"""The pages of the operators: each operator has one, and the pictures in them are what the code draws now."""

import re
from xml.etree import ElementTree

import pytest

from docs.pictures.scenes import FOLDER, SCENES
from fluvial.dsl import operators as ops
from tests.docs.pages import ROOT

OPERATORS = ROOT / "docs" / "operators"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in OPERATORS.glob("*.md")}


PARTS = {"branch": "split", "side": "process", "task_call": "task"}
"""What an operator's page tells of another's."""

_OPERATORS = (kind for kind in vars(ops).values() if isinstance(kind, type) and issubclass(kind, ops.Operator))
KINDS = sorted({one.kind for one in _OPERATORS if "kind" in vars(one)} - {ops.Source.kind} - PARTS.keys())


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_what_the_code_draws(name: str) -> None:
    """After a wanted change: make pictures"""
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == SCENES[name]()


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_well_formed(name: str) -> None:
    root = ElementTree.fromstring((FOLDER / f"{name}.svg").read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_there_are_no_pictures_that_nobody_draws() -> None:
    assert {file.stem for file in FOLDER.glob("*.svg")} == set(SCENES)


def test_each_picture_is_in_a_page() -> None:
    shown = {name for page in PAGES.values() for name in re.findall(r"images/operators/([\w-]+)\.svg", page)}
    assert shown == set(SCENES)


@pytest.mark.parametrize("kind", KINDS)
def test_each_operator_has_a_page_that_is_listed(kind: str) -> None:
    """To add one: docs/contributing/operators.md."""
    assert kind in PAGES, f"docs/operators/{kind}.md is missing"
    assert f"({kind}.md)" in PAGES["index"]
    assert f"operators/{kind}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"index"}))
def test_a_page_has_a_picture_an_example_and_its_rules(name: str) -> None:
    assert "images/operators/" in PAGES[name], f"draw a scene in docs/pictures for docs/operators/{name}.md"
    assert "```python" in PAGES[name]
    rows = re.findall(r"^\| (key|time|time, headers|`None`|order|late data|state) \|", PAGES[name], re.MULTILINE)
    assert {"key", "`None`", "late data", "state"} <= set(rows)

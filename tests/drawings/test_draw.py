"""The door: formats, views, and drawings of a plan that never change."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from explained import assert_explains, error_of
from fluvial.dsl.errors import UsageError
from fluvial.planner import Plan, draw, drawing
from fluvial.planner.drawing import FORMATS, Format, View, views
from golden import assert_golden
from tests.planner.drawing.samples import circle, plans, visits

GOLDEN = Path(__file__).with_name("golden")
ENDINGS: dict[Format, str] = {"text": "txt", "mermaid": "mmd", "dot": "dot", "svg": "svg"}


@pytest.mark.parametrize("view", ["operators", "stages"])
@pytest.mark.parametrize("format", ENDINGS)
def test_the_drawing_is_the_golden_one(format: Format, view: View) -> None:
    assert_golden(draw(visits(), format, view=view), GOLDEN / f"visits-{view}.{ENDINGS[format]}")


def test_a_circle_is_the_golden_one() -> None:
    assert_golden(draw(circle()), GOLDEN / "circle-operators.txt")


def test_json_is_the_plan_itself() -> None:
    made = visits()
    assert draw(made, "json") == draw(made, "json", view="stages") == made.to_json()


@pytest.mark.parametrize(("format", "view", "said"), [
    ("png", "operators", "one of text, mermaid, dot, svg, html, json"),
    ("svg", "tasks", "one of operators, stages"),
])  # fmt: skip
def test_an_unknown_choice_is_refused_with_the_choices(format: Any, view: Any, said: str) -> None:
    place: Any = lambda: draw(visits(), format, view=view)  # noqa: E731
    assert_explains(error_of(place, UsageError), "draw: ", place, said)


def test_a_pipeline_is_no_plan() -> None:
    place: Any = lambda: draw(visits().pipeline)  # type: ignore[arg-type] # noqa: E731
    assert_explains(error_of(place, UsageError), "draw got Pipeline(", place, "a Plan", "draw(plan(pipeline))")


def test_the_choices_of_views_are_those_that_there_are() -> None:
    assert list(drawing.VIEWS) == list(views.VIEWS)


def test_a_notebook_shows_the_svg() -> None:
    made = visits()
    assert made._repr_html_() == draw(made, "svg")


@pytest.mark.slow
@settings(max_examples=15)
@given(plans(most=20))
def test_drawings_do_not_change_from_one_time_to_the_next(plan: Plan) -> None:
    for format in FORMATS:
        assert draw(plan, format) == draw(plan, format)


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_loaded_from_anywhere(format: Format) -> None:
    drawn = draw(visits(), format).replace("http://www.w3.org/2000/svg", "")
    assert not [sign for sign in ("http:", "https:", "//", "@import", "url(") if sign in _without_comments(drawn)]


def _without_comments(drawn: str) -> str:
    return "\n".join(line.partition("// ")[0] for line in drawn.splitlines())

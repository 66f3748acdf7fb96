"""Drawings of a plan: as text, Mermaid, DOT, SVG, a page for the browser, or JSON; made here, without any binary."""

from collections.abc import Callable, Mapping

from ...dsl.errors import UsageError
from ..plan import Plan
from . import dot, html, mermaid, svg, text
from .scene import Drawing
from .views import VIEWS

__all__ = ["draw"]

Writer = Callable[[Plan, str], str]


def _of_scene(write: Callable[[Drawing], str]) -> Writer:
    return lambda plan, view: write(VIEWS[view](plan))


FORMATS: Mapping[str, Writer] = {
    "text": _of_scene(text.write),
    "mermaid": _of_scene(mermaid.write),
    "dot": _of_scene(dot.write),
    "svg": _of_scene(svg.write),
    "html": lambda plan, view: html.write({name: scene(plan) for name, scene in VIEWS.items()}, view),
    "json": lambda plan, view: plan.to_json(),  # noqa: ARG005 - a plan has one JSON form
}


def draw(plan: Plan, format: str = "text", *, view: str = "operators") -> str:
    """Draw a plan: every operator with its stage around it, or, with `view="stages"`, stages and streams alone.

    `format` is "text", "mermaid", "dot", "svg", "html" (one page with both views, which needs no network) or "json".
    The same plan always gives the same drawing.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import draw, plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).flat_map(str.split).send_to("out")
    >>> print(draw(plan(words), "mermaid").splitlines()[0])
    flowchart TB
    """
    _known("format", format, FORMATS)
    _known("view", view, VIEWS)
    return FORMATS[format](plan, view)


def _picture(plan: Plan) -> str:
    return draw(plan, "svg")


Plan.picture = _picture


def _known(what: str, given: str, choices: Mapping[str, object]) -> None:
    if given not in choices:
        raise UsageError(f"draw: {what}={given!r}\n  expected: {', '.join(choices)}")

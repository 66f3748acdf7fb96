"""Draws a plan as text, Mermaid, DOT, SVG, a page for the browser, or JSON, without any binary.

Comes in: a `Plan`. Goes out: the text of the drawing. `views` makes a `scene` of the plan, `layout` gives its nodes
places, and a module for each format writes it down. Read `scene` first."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Literal

from ...dsl.errors import UsageError
from ...dsl.validation import require
from ...dsl.verb_calls import explained_call
from ..plan import Plan

__all__ = ["draw"]

Format = Literal["text", "mermaid", "dot", "svg", "html", "json"]
View = Literal["operators", "stages"]
Writer = Callable[[Plan, View], str]


def _written_by(module: str) -> Writer:
    """The writer of a module of this package, which is loaded at its first use: most programs never draw."""

    def write(plan: Plan, view: View) -> str:
        writer: Writer = import_module(f".{module}", __name__).write
        return writer(plan, view)

    return write


def _json(plan: Plan, _: View) -> str:
    return plan.to_json()


FORMATS: Mapping[Format, Writer] = {
    "text": _written_by("text"),
    "mermaid": _written_by("mermaid"),
    "dot": _written_by("dot"),
    "svg": _written_by("svg"),
    "html": _written_by("html"),
    "json": _json,
}
VIEWS: tuple[View, ...] = ("operators", "stages")


@partial(explained_call, error=UsageError)
def draw(plan: Plan, format: Format = "text", *, view: View = "operators") -> str:
    """Draw a plan: every operator with its stage around it, or, with `view="stages"`, stages and streams alone.

    `format` is "text", "mermaid", "dot", "svg", "html" (one page with both views, which needs no network) or "json"
    (the plan itself, whatever the view). The same plan always gives the same drawing.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import draw, plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).flat_map(str.split).send_to("out")
    >>> print(draw(plan(words), "mermaid").splitlines()[0])
    flowchart TB
    """
    require(isinstance(plan, Plan), UsageError, f"draw got {plan!r}", "a Plan", "write draw(plan(pipeline))")
    _require("format", format, FORMATS)
    _require("view", view, VIEWS)
    return FORMATS[format](plan, view)


def _picture(plan: Plan) -> str:
    """The SVG by which a notebook shows a plan."""
    return draw(plan, "svg")


Plan.picture = _picture


def _require(what: str, given: str, choices: Iterable[str]) -> None:
    require(
        isinstance(given, str) and given in choices,
        UsageError,
        f"draw: {what}={given!r}",
        f"one of {', '.join(choices)}",
        "choose one of them",
    )

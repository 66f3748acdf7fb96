"""HTML: one page that shows both views, to be moved, enlarged and asked; it loads nothing from anywhere."""

from collections.abc import Mapping
from string import Template

import msgspec

from ..plan import Plan
from . import View
from .layout import arrange
from .legend import legend
from .scene import Drawing
from .svg import document, resource, shapes
from .views import VIEWS
from .xml import element, escaped


def write(plan: Plan, view: View) -> str:
    """A page of all views of a plan, of which `view` is shown first."""
    drawings: Mapping[View, Drawing] = {name: show(plan) for name, show in VIEWS.items()}
    return Template(resource("page.html")).substitute(
        title=escaped(drawings[view].name),
        style=resource("drawing.css") + resource("page.css"),
        buttons="".join(_button(other, other == view) for other in drawings),
        views="".join(_section(other, drawing) for other, drawing in drawings.items()),
        facts=_facts(drawings),
        script=resource("page.js"),
        view=view,
    )


def _button(view: str, pressed: bool) -> str:
    return element("button", escaped(view), type="button", data_show=view, aria_pressed=str(pressed).lower())


def _section(view: str, drawing: Drawing) -> str:
    picture = arrange(drawing)
    entries, right, bottom = legend(drawing, 4, 0, 1200)
    drawn = document(drawing, picture.width, picture.height, shapes(drawing, picture))
    return element("section", drawn, element("div", document(drawing, right + 4, bottom, entries)), data_view=view)


def _facts(drawings: Mapping[View, Drawing]) -> str:
    """What there is to tell, by view and number of node, as JSON that can stand in a script element."""
    facts = {view: [[node.title, node.facts] for node in drawing.nodes] for view, drawing in drawings.items()}
    return msgspec.json.encode(facts).decode().replace("<", "\\u003c")

"""SVG: a picture that browsers and notebooks show by themselves."""

from functools import cache
from pathlib import Path

from ..plan import Plan
from . import View
from .geometry import Picture
from .layout import arrange
from .legend import legend
from .scene import Drawing
from .shapes import edge_shape, label_shape, node_shape, stage_shape
from .views import scene
from .xml import element, escaped

# That of the drawing (`layout.py`): the legend below begins where the outermost box does.
_MARGIN = 16.0


def write(plan: Plan, view: View) -> str:
    """A view of a plan as an SVG document with its legend."""
    drawing = scene(plan, view)
    picture = arrange(drawing)
    entries, right, bottom = legend(drawing, _MARGIN, picture.height, max(picture.width - 2 * _MARGIN, 420.0))
    width, height = max(picture.width, right + _MARGIN), bottom + _MARGIN / 2
    style = element("style", resource("drawing.css"))
    return document(drawing, width, height, style + shapes(drawing, picture) + entries) + "\n"


def document(drawing: Drawing, width: float, height: float, content: str) -> str:
    """An SVG element of that size on a ground of its own."""
    paper = element("rect", class_="paper", width=width, height=height)
    attributes = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "class_": "fluvial"}
    title = element("title", escaped(f"{drawing.name}: {drawing.view}"))
    return element(
        "svg", title, paper, content, xmlns="http://www.w3.org/2000/svg", width=width, height=height, **attributes
    )


def shapes(drawing: Drawing, picture: Picture) -> str:
    """All shapes of a picture: stages first, then edges over them, then labels and nodes."""
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    return "\n".join(
        (
            *(stage_shape(group, picture.groups[group.id], picture.titles[group.id]) for group in drawing.groups),
            *(edge_shape(edge, way, number[edge.source], number[edge.target]) for edge, way in picture.edges),
            *(label_shape(text, box) for text, box in picture.labels.items()),
            *(node_shape(node, picture.nodes[node.id], number[node.id]) for node in drawing.nodes),
        )
    )


@cache
def resource(name: str) -> str:
    """The text of a file of this package, such as a style sheet."""
    return Path(__file__).with_name(name).read_text("utf-8")

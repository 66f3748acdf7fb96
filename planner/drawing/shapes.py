"""Shapes: nodes, stages, edges and labels as SVG elements."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from .boxes import FONTS, LABEL, STAGE, STREAMS, Font, baselines, fitting_label, fitting_line, fitting_title
from .characters import usual
from .geometry import TURN, Box, Way
from .scene import Edge, Group, Look, Node, TextLine
from .xml import element, escaped

# As high as it is wide, about: a longer head would hide the end of a short link.
_HEAD = 7.0


def outline(look: Look, box: Box) -> str:
    """The shape that tells a node's look, without colours."""
    return _OUTLINES.get(look, _pill)(box)


def _rounded(radius: float) -> Callable[[Box], str]:
    return lambda box: _rect(box, radius)


def _double(box: Box) -> str:
    return _rect(box, 8) + _rect(Box(box.x + 3, box.y + 3, box.width - 6, box.height - 6), 5, "inner")


def _pill(box: Box) -> str:
    return _rect(box, box.height / 2)


_OUTLINES: Mapping[Look, Callable[[Box], str]] = {
    "non-terminal": _rounded(8),
    "terminal": _rounded(0),
    "both": _double,
    "stage": _rounded(12),
}


def _rect(box: Box, radius: float, look: str | None = None) -> str:
    return element("rect", class_=look, x=box.x, y=box.y, width=box.width, height=box.height, rx=radius)


def node_shape(node: Node, box: Box, number: int) -> str:
    """A node with its lines of text; everything there is to tell about it is its title."""
    kind = f"stream {node.look}" if node.look in STREAMS else node.look
    lines = [_line(line, box.middle, y) for line, y in zip(node.lines, baselines(node, box.y), strict=True)]
    return element("g", _facts_title(node), outline(node.look, box), *lines, class_=f"node {kind}", data_node=number)


def _facts_title(node: Node) -> str:
    """The title of a node: its lines in full, and its facts."""
    return element("title", escaped("\n".join((node.title, *(f"{name}: {text}" for name, text in node.facts)))))


def _line(line: TextLine, middle: float, y: float) -> str:
    font = FONTS[line.part]
    shown = fitting_line(line)
    if not font.indent:
        return _text(shown, middle, y, font, line.part)
    left = middle - (font.width(shown) + font.indent) / 2
    return _drum(left, y - font.size) + _text(shown, left + font.indent, y, font, f"{line.part} after")


def _drum(x: float, y: float) -> str:
    """A small drum, the sign of a store, before its line of text."""
    path = f"M{x:g} {y + 3:g}v7a5 2 0 0 0 10 0v-7a5 2 0 0 0 -10 0a5 2 0 0 0 10 0"
    return element("path", class_="drum", d=path)


def _text(shown: str, x: float, y: float, font: Font, look: str) -> str:
    # Where widths are a guess, the browser is told to keep to it.
    exact = {} if usual(shown) else {"textLength": font.width(shown), "lengthAdjust": "spacingAndGlyphs"}
    return element("text", escaped(shown), class_=look, x=x, y=y, **exact)


def stage_shape(group: Group, box: Box, title: Box) -> str:
    """The rounded box around the operators of a stage, and its title."""
    shown = _text(fitting_title(group.title), title.x, title.y + 14, STAGE, "stage-title")
    return element("g", element("title", escaped(group.title)), _rect(box, 12), shown, class_="around")


def label_shape(text: str, box: Box) -> str:
    """The label of an edge, on a ground of its own."""
    shown = _text(fitting_label(text), box.middle, box.y + 15.5, LABEL, "label-text")
    return element("g", element("title", escaped(text)), _rect(box, 5), shown, class_="label")


def edge_shape(edge: Edge, way: Way, source: int, target: int) -> str:
    """The line of an edge along its way, and the head of its arrow, by the numbers of the nodes that it joins."""
    end = way[-1]
    head = f"M{end.x - 4:g} {end.y - _HEAD:g}h8l-4 {_HEAD:g}z"
    shapes = element("path", class_="line", d=path_of(way)), element("path", class_="head", d=head)
    return element("g", *shapes, class_=f"edge {edge.kind}", data_source=source, data_target=target)


def path_of(way: Way) -> str:
    """The way as SVG path data; it ends where the head of the arrow begins."""
    # A half turn at the end is raised as a whole, or it would be none.
    raised = 2 if way[-1].y == way[-2].y else 1
    end = (point._replace(y=point.y - _HEAD + 1) for point in way[-raised:])
    return "".join(_strokes((*way[:-raised], *end)))


def _strokes(way: Way) -> Iterator[str]:
    yield f"M{way[0].x:g} {way[0].y:g}"
    down = True
    for (x, y), (to_x, to_y) in pairwise(way):
        if x == to_x:
            yield f"V{to_y:g}"
        elif y == to_y:
            bulge = y + (TURN if down else -TURN)
            yield f"C{x:g} {bulge:g} {to_x:g} {bulge:g} {to_x:g} {to_y:g}"
        else:
            half = (y + to_y) / 2
            yield f"C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"
        down = to_y > y if to_y != y else not down

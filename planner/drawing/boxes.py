"""Boxes: how large a node, a label or a title must be for its text, and what of the text fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from .characters import shorten, width_of
from .scene import Node, Part, TextLine


@dataclass(frozen=True, slots=True)
class Font:
    """How a kind of text is set; sizes in pixels, `indent` the space for a sign before it."""

    size: float
    height: float
    indent: float = 0.0
    bold: bool = False

    def width(self, text: str) -> float:
        """A width in pixels that the text does not exceed."""
        return width_of(text, self._set)

    def fitting(self, text: str, width: float) -> str:
        """The text, shortened so that it and a sign before it fit into `width` pixels."""
        return shorten(text, self._set, width - self.indent)

    @property
    def _set(self) -> float:
        # The table of widths is of bold letters.
        return self.size if self.bold else 0.93 * self.size


FONTS: Mapping[Part, Font] = {
    "title": Font(13, 18, bold=True),
    "options": Font(11, 15),
    "types": Font(11, 15),
    "store": Font(11, 16, indent=16),
}
LABEL = Font(12, 22)
STAGE = Font(12, 20, bold=True)

# About thirty letters of a label, forty of smaller text: the rest can be read in the title of the node.
_WIDEST = 260.0
# A stage is wider than a node, and so may its title be.
_WIDEST_TITLE = 340.0
# With less the text of a label touches the frame; with more, stages of many nodes grow too wide for a page.
_SIDE = 14.0
# Half circles take their width from within the box, where text must not stand.
_ROUND = 20.0
# Less than at the sides, since a line is higher than its letters, and so brings space above them itself.
_ABOVE = 8.0
# Narrower nodes would be higher than wide, and their arrows hard to tell apart.
_LEAST = 84.0

STREAMS = ("source", "intermediate", "output", "late", "dead-letters")


def even(width: float) -> float:
    """The next even number of pixels, so that middles are whole."""
    return float(2 * ceil(width / 2))


def side(node: Node) -> float:
    """The space left and right of a node's text; the ends of streams are round."""
    return _ROUND if node.look in STREAMS else _SIDE


def size_of(node: Node) -> tuple[float, float]:
    """Width and height of a node in pixels, with the space around its lines of text."""
    inner = max(FONTS[line.part].indent + FONTS[line.part].width(fitting_line(line)) for line in node.lines)
    height = 2 * _ABOVE + sum(FONTS[line.part].height for line in node.lines)
    return even(max(inner, _LEAST) + 2 * side(node)), height


def fitting_line(line: TextLine) -> str:
    """A line, shortened to what fits into the widest node."""
    return FONTS[line.part].fitting(line.text, _WIDEST)


def fitting_label(text: str) -> str:
    """The label of an edge, shortened to the width of the widest node."""
    return LABEL.fitting(text, _WIDEST)


def fitting_title(text: str) -> str:
    """The title of a stage, shortened to the widest title."""
    return STAGE.fitting(text, _WIDEST_TITLE)


def label_size(text: str) -> tuple[float, float]:
    """Width and height of an edge's label in pixels, with the space at its sides."""
    return even(LABEL.width(fitting_label(text)) + 2 * _SIDE), LABEL.height


def title_size(text: str) -> tuple[float, float]:
    """Width and height of a stage's title in pixels; it has no space at its sides."""
    return even(STAGE.width(fitting_title(text))), STAGE.height


def baselines(node: Node, top: float) -> list[float]:
    """The y of each line of text of a node whose box starts at `top`."""
    ys: list[float] = []
    at = top + _ABOVE
    for line in node.lines:
        font = FONTS[line.part]
        ys.append(at + (font.height + 0.7 * font.size) / 2)
        at += font.height
    return ys

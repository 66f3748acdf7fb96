"""Geometry: points, boxes and ways on the plane, in pixels, with y growing downwards."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from .scene import Edge


class Point(NamedTuple):
    """A place in a drawing, in pixels from its upper left corner."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of a node, a group or a label: its upper left corner and its size, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y + self.height

    @property
    def middle(self) -> float:
        """The x half-way between its sides, where texts are centred."""
        return self.x + self.width / 2

    def moved(self, dx: float, dy: float) -> "Box":
        """The box, shifted by `dx` to the right and `dy` down."""
        return replace(self, x=self.x + dx, y=self.y + dy)


TURN = 28.0
"""How far the handles of a half turn reach out; it stays within that of its ends."""

Way = tuple[Point, ...]
"""Where an edge runs. Between two points of one x it is straight; of one y, a half turn; else it swings from vertical
to vertical, inside the rectangle between the two."""


def moved(way: Way, dx: float, dy: float) -> Way:
    """The way, shifted by `dx` to the right and `dy` down."""
    return tuple(Point(x + dx, y + dy) for x, y in way)


def joined_ways(*ways: Way) -> Way:
    """Ways that follow one another as one, without the points that change nothing."""
    points = [point for way in ways for point in way]
    corners = points[:1]
    for point in points[1:]:
        # A piece may begin where the one before it ends.
        if point == corners[-1]:
            continue
        if (
            len(corners) > 1
            and corners[-2].x == corners[-1].x == point.x
            and _between(corners[-2].y, corners[-1].y, point.y)
        ):
            corners.pop()
        corners.append(point)
    return tuple(corners)


def _between(first: float, second: float, third: float) -> bool:
    return first <= second <= third or first >= second >= third


@dataclass(frozen=True, slots=True)
class Picture:
    """A scene with a place for everything: boxes of nodes and groups by id, of labels by text, a way for each edge."""

    width: float
    height: float
    nodes: Mapping[str, Box]
    groups: Mapping[str, Box]
    titles: Mapping[str, Box]
    labels: Mapping[str, Box]
    edges: tuple[tuple[Edge, Way], ...]

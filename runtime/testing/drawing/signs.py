"""Signs of keys: a shape for each key, so that keys differ without colours, and the CSS class of its colour."""

from collections.abc import Callable

from ....planner.drawing.xml import element
from .frame import SIZE

_SIGNS = 6
"""How many shapes and colours there are; the seventh key has those of the first."""


def _circle(x: float, y: float, size: float) -> str:
    return element("circle", cx=x, cy=y, r=size)


def _polygon(*corners: tuple[float, float]) -> Callable[[float, float, float], str]:
    def shape(x: float, y: float, size: float) -> str:
        points = " ".join(f"{x + size * right:g},{y + size * down:g}" for right, down in corners)
        return element("polygon", points=points)

    return shape


_SHAPES: tuple[Callable[[float, float, float], str], ...] = (
    _circle,
    _polygon((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    _polygon((0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    _polygon((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    _polygon((-1.1, -0.9), (1.1, -0.9), (0, 1.1)),
    _polygon((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4), (0.4, 1.1), (-0.4, 1.1),
             (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
)  # fmt: skip


def shape_of(sign: int | None, x: float, y: float, size: float = SIZE) -> str:
    """The shape of a key by its number, around a point."""
    return _SHAPES[(sign or 0) % _SIGNS](x, y, size)


def colour_of(sign: int | None) -> str:
    """The CSS class of a key's colour, by the key's number."""
    return "plain" if sign is None else f"k{sign % _SIGNS}"


def cross(x: float, y: float) -> str:
    """The cross over a message that was late or failed."""
    arm = SIZE + 2.5
    strokes = f"M{x - arm:g} {y - arm:g}L{x + arm:g} {y + arm:g}M{x - arm:g} {y + arm:g}L{x + arm:g} {y - arm:g}"
    return element("path", class_="cross", d=strokes)

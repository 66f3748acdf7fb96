"""The legend: what shapes and colours stand for."""

from collections.abc import Iterator

from .boxes import Font
from .geometry import Box
from .scene import TIMES, Drawing, Look
from .shapes import outline
from .xml import element, escaped

_FONT = Font(11, 16)
# Eight more than a swatch is high, so that those of two rows do not touch.
_ROW = 24.0
# Wider than it is high, or the ends of a stream, two half circles, would leave a disc.
_SWATCH = 26.0
_TEXTS: dict[Look, str] = {
    "non-terminal": "non-terminal: passes on",
    "terminal": "terminal: messages land here",
    "both": "both: keeps, later emits",
    "stage": "stage",
    "source": f"stream {TIMES}partitions",
    "late": "set aside",
}
_STREAM_LOOKS = {"source", "output", "intermediate"}
_ASIDE_LOOKS = {"late", "dead-letters"}


def _present(drawing: Drawing) -> list[Look]:
    looks = {node.look for node in drawing.nodes}
    there: dict[Look, bool] = {look: look in looks for look in _TEXTS}
    there |= {"source": bool(looks & _STREAM_LOOKS), "late": bool(looks & _ASIDE_LOOKS)}
    there["stage"] = "stage" in looks or bool(drawing.groups)
    return [look for look in _TEXTS if there[look]]


def legend(drawing: Drawing, x: float, y: float, width: float) -> tuple[str, float, float]:
    """The legend in rows of at most `width` pixels from a point on; and the right and bottom it reaches."""
    shapes: list[str] = []
    right = x
    bottom = y
    for look, left, top in _spots(_present(drawing), x, y, width):
        shapes.append(_entry(look, left, top))
        right, bottom = max(right, left + _width(look)), top + _ROW
    return element("g", *shapes, class_="legend"), right, bottom


def _spots(looks: list[Look], x: float, y: float, width: float) -> Iterator[tuple[Look, float, float]]:
    left, top = x, y
    for look in looks:
        if left > x and left + _width(look) > x + width:
            left, top = x, top + _ROW
        yield look, left, top
        left += _width(look) + 18


def _width(look: Look) -> float:
    return float(round(_SWATCH + 7 + _FONT.width(_TEXTS[look])))


def _entry(look: Look, x: float, y: float) -> str:
    kind = f"stream {look}" if look in ("source", "late") else look
    swatch = element("g", outline(look, Box(x, y + 4, _SWATCH, 16)), class_=f"node {kind}")
    return swatch + element("text", escaped(_TEXTS[look]), x=x + _SWATCH + 7, y=y + 16)

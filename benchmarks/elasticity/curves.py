"""Curves over time as a picture: panels below each other, with the moments marked at which something was changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from xml.sax.saxutils import escape

from msgspec import Struct

Color = Literal["ours", "other"]

_WIDTH, _LEFT, _RIGHT, _HIGH, _GAP, _TOP = 760, 64, 12, 110, 44, 24
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.axis { stroke: #8c959f; fill: none } .mark { stroke: #8c959f; stroke-dasharray: 3 3 } .end { text-anchor: end }
.line { fill: none; stroke-width: 1.8 }
.ours { stroke: #0a66c2 } .other { stroke: #c9a227 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""


class Curve(Struct, frozen=True):
    """A value over time: `points` are seconds and the value then, None where there is none."""

    color: Color
    points: Sequence[tuple[float, float | None]]


class Panel(Struct, frozen=True):
    """Curves on one scale, from 0 to the largest of their values, or to `most`."""

    title: str
    curves: Sequence[Curve]
    most: float | None = None


def drawn(title: str, panels: Sequence[Panel], marks: Mapping[float, str]) -> str:
    """An SVG. `marks` are the moments that are marked in each panel, in seconds, and their names."""
    seconds = max((at for panel in panels for curve in panel.curves for at, _ in curve.points), default=0.0) or 1.0
    height = len(panels) * (_HIGH + _GAP) + _TOP
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">', f"<title>{escape(title)}</title>"]
    lines.append(f"<style>{_STYLE}</style>")
    for number, panel in enumerate(panels):
        lines += _panel(panel, seconds, number * (_HIGH + _GAP) + _TOP)
        lines += _marks(marks, seconds, number * (_HIGH + _GAP) + _TOP)
    lines.append(f'<text class="end" x="{_WIDTH - _RIGHT}" y="{height - 6}">{seconds:.0f} s</text>')
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, seconds: float, top: int) -> Iterator[str]:
    values = [value for curve in panel.curves for _, value in curve.points if value is not None]
    most = panel.most or max([1.0, *values])
    bottom = top + _HIGH
    yield f'<text x="{_LEFT}" y="{top - 8}">{escape(panel.title)}</text>'
    yield f'<path class="axis" d="M{_LEFT} {top}V{bottom}H{_WIDTH - _RIGHT}"/>'
    yield f'<text class="end" x="{_LEFT - 6}" y="{top + 10}">{most:,.0f}</text>'
    yield f'<text class="end" x="{_LEFT - 6}" y="{bottom}">0</text>'
    for curve in panel.curves:
        if path := _path(curve.points, seconds, bottom, most):
            yield f'<path class="line {curve.color}" d="{path}"/>'


def _path(points: Sequence[tuple[float, float | None]], seconds: float, bottom: int, most: float) -> str:
    """A line through the points, which ends where a value is missing, and begins anew behind it."""
    parts: list[str] = []
    drawing = False
    for at, value in points:
        if value is not None:
            high = _HIGH * min(value / most, 1.0)
            parts.append(f"{'L' if drawing else 'M'}{_across(at, seconds):.1f} {bottom - high:.1f}")
        drawing = value is not None
    return "".join(parts)


def _marks(marks: Mapping[float, str], seconds: float, top: int) -> Iterator[str]:
    for at, name in marks.items():
        across = _across(at, seconds)
        yield f'<path class="mark" d="M{across:.1f} {top}V{top + _HIGH}"/>'
        yield f'<text x="{across + 4:.1f}" y="{top + 10}">{escape(name)}</text>'


def _across(at: float, seconds: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / seconds

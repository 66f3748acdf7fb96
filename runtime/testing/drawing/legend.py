"""The legend: a sample of each thing in a drawing, and what it stands for."""

from collections.abc import Callable, Mapping

from ....planner.drawing.xml import element, escaped
from .figure import Figure, LegendEntry
from .frame import MARGIN
from .labels import SMALL
from .signs import colour_of, cross, shape_of

_LEGEND = 22.0
_SWATCH = 26.0


def legend_of(figure: Figure) -> tuple[str, float]:
    """The legend below the drawing, and the y of its bottom."""
    x, y = MARGIN, figure.bottom + 8
    drawn: list[str] = []
    for entry in figure.legend:
        width = round(_SWATCH + SMALL.width(entry.text) + 14)
        if x > MARGIN and x + width > figure.width:
            x, y = MARGIN, y + _LEGEND
        drawn.append(_SAMPLES[entry.sample](entry, x, y + _LEGEND / 2))
        drawn.append(element("text", escaped(entry.text), x=x + _SWATCH, y=y + _LEGEND / 2 + 4))
        x += width
    return element("g", *drawn, class_="legend"), y + _LEGEND


def _mark_sample(entry: LegendEntry, x: float, y: float) -> str:
    crossed = cross(x + 12, y) if entry.sample in ("late", "failed") else ""
    return element("g", shape_of(entry.sign, x + 12, y), crossed, class_=f"mark {entry.sample} {colour_of(entry.sign)}")


def _key_sample(entry: LegendEntry, x: float, y: float) -> str:
    return element("g", shape_of(entry.sign, x + 12, y), class_=f"mark sent {colour_of(entry.sign)}")


def _pane_sample(_: LegendEntry, x: float, y: float) -> str:
    frame = element("rect", x=x + 1, y=y - 6, width=20, height=12, rx=3)
    return element("g", frame, class_="pane on_time plain")


def _line_sample(entry: LegendEntry, x: float, y: float) -> str:
    if entry.sample == "interval":
        return element("path", class_="interval", d=f"M{x + 2:g} {y:g}h18")
    area = element("rect", class_="past", x=x, y=y - 8, width=12, height=16)
    return area + element("path", class_="watermark", d=f"M{x + 12:g} {y - 8:g}v16")


_SAMPLES: Mapping[str, Callable[[LegendEntry, float, float], str]] = {
    "sent": _mark_sample,
    "idle": _mark_sample,
    "late": _mark_sample,
    "failed": _mark_sample,
    "made": _mark_sample,
    "key": _key_sample,
    "pane": _pane_sample,
    "interval": _line_sample,
    "watermark": _line_sample,
}

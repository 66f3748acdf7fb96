"""SVG of a figure: a picture that browsers and notebooks show without other files, in light and in dark mode."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ....planner.drawing.xml import element, escaped
from .figure import Bar, CauseLine, Figure, FigureRow, Interval, Mark
from .frame import BAR, MARGIN, SIZE, WIDTH
from .labels import SMALL, TEXT
from .legend import legend_of
from .signs import colour_of, cross, shape_of


def write(figure: Figure) -> str:
    """A figure as an SVG document with its legend."""
    entries, below = legend_of(figure)
    height = below + 6
    paper = element("rect", class_="paper", width=figure.width, height=height, rx=6)
    parts = (
        paper,
        *(_stripe(row, figure) for row in figure.rows if row.striped),
        _past(figure),
        *_grid(figure),
        *(_heading(row, figure) for row in figure.rows),
        *map(_interval, figure.intervals),
        *map(_link, figure.links),
        *map(_bar, figure.bars),
        *map(_mark, figure.marks),
        entries,
    )
    content = element("title", escaped(figure.title)) + element("style", _style()) + "\n".join(filter(None, parts))
    size = {"width": figure.width, "height": height, "viewBox": f"0 0 {figure.width:g} {height:g}"}
    return element("svg", content, xmlns="http://www.w3.org/2000/svg", **size, role="img", class_="fluvial-run") + "\n"


@cache
def _style() -> str:
    return Path(__file__).with_name("run.css").read_text("utf-8")


def _stripe(row: FigureRow, figure: Figure) -> str:
    """The background of a row with an output."""
    x, width = MARGIN / 2, figure.width - MARGIN
    return element("rect", class_="stripe", x=x, y=row.y + 1, width=width, height=row.height - 2, rx=4)


def _heading(row: FigureRow, figure: Figure) -> str:
    """The heading of a row: its number, its stream, and its key."""
    base = row.y + row.height / 2 + 4
    number = element("text", row.number, class_="number", x=MARGIN + 10, y=base) if row.number else ""
    title = element("text", escaped(row.title), class_="soft" if row.soft else "stream", x=figure.titles, y=base)
    key = element("text", escaped(row.key), class_="key", x=figure.keys, y=base) if row.key else ""
    return number + title + key


def _grid(figure: Figure) -> Iterator[str]:
    """The ticks of the axis, and a faint line below each."""
    yield element("text", escaped(figure.axis), class_="axis", x=MARGIN, y=figure.top - 12)
    for tick in figure.ticks:
        yield element("path", class_="grid", d=f"M{tick.x:g} {figure.top - 4:g}V{figure.bottom:g}")
        yield element("text", escaped(tick.label), class_="tick", x=tick.x, y=figure.top - 12)


def _past(figure: Figure) -> str:
    """The watermark's line, and the area of the time that has passed."""
    if not figure.passed:
        return ""
    way = "".join(f"L{x:g} {y:g}" for x, y in figure.passed[1:])
    (x, y), bottom = figure.passed[0], figure.passed[-1][1]
    area = element("path", class_="past", d=f"M{x:g} {y:g}{way}L{figure.left:g} {bottom:g}Z")
    return area + element("path", class_="watermark", d=f"M{x:g} {y:g}{way}")


def _interval(interval: Interval) -> str:
    return element("path", class_="interval", d=f"M{interval.x:g} {interval.y:g}h{interval.width:g}")


def _link(link: CauseLine) -> str:
    if link.x == link.to_x:
        return element("path", class_="link", d=f"M{link.x:g} {link.y:g}V{link.to_y:g}")
    if link.corner:
        return element("path", class_="link", d=f"M{link.x:g} {link.y:g}H{link.to_x:g}V{link.to_y:g}")
    half = (link.y + link.to_y) / 2
    path = f"M{link.x:g} {link.y:g}C{link.x:g} {half:g} {link.to_x:g} {half:g} {link.to_x:g} {link.to_y:g}"
    return element("path", class_="link", d=path)


def _mark(mark: Mark) -> str:
    """A message with its label; one that came too late or failed is crossed out."""
    crossed = mark.look in ("late", "failed")
    shapes = shape_of(mark.sign, mark.x, mark.y) + (cross(mark.x, mark.y) if crossed else "")
    anchor = {"text_anchor": "end"} if mark.before else {}
    x = mark.x - SIZE - 5 if mark.before else mark.x + SIZE + 5
    label = element("text", escaped(mark.label), class_="label", x=x, y=mark.y + 4, **anchor)
    tooltip = element("title", escaped(mark.tooltip))
    return element("g", tooltip, shapes, label, class_=f"mark {mark.look} {colour_of(mark.sign)}")


def _bar(bar: Bar) -> str:
    """A pane: its window as a bar, with the sign of its key and its value."""
    frame = element("rect", x=bar.x, y=bar.y, width=max(bar.width, 2.0), height=BAR, rx=3)
    middle = bar.y + BAR / 2
    x = bar.x + 8 if bar.inside else bar.x + bar.width + 10
    sign = shape_of(bar.sign, x, middle, SIZE - 1.5)
    label = element("text", escaped(bar.label), class_="label", x=x + SIZE + 3, y=middle + 4)
    seal, tooltip = element("g", sign, class_="seal"), element("title", escaped(bar.tooltip))
    kind = f"pane {bar.look} {colour_of(bar.sign)}"
    return element("g", tooltip, frame, seal, label, _note(bar, middle + 4), class_=kind)


def _note(bar: Bar, base: float) -> str:
    """The remark on a pane, behind its bar, or within it where there is no space behind."""
    if not bar.note:
        return ""
    end, width = bar.x + bar.width, SMALL.width(bar.note)
    label = 0.0 if bar.inside else TEXT.width(bar.label) + 2 * SIZE
    if end + label + width + 8 > WIDTH - MARGIN:
        return element("text", escaped(bar.note), class_="note", x=end - 8, y=base, text_anchor="end")
    return element("text", escaped(bar.note), class_="note", x=end + label + 8, y=base)

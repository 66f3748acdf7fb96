"""The figure: all parts of a drawing of a run, with their places in pixels. y grows downwards."""

from dataclasses import dataclass
from typing import Literal

Look = Literal["sent", "idle", "late", "failed", "made"]
"""What a mark stands for: a message that was sent; one that nothing came of; one that came too late, or failed; one
that came out."""

BarLook = Literal["early", "on_time", "late"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A message. `sign` is the number of its key, by which shape and colour are chosen; None without key."""

    x: float
    y: float
    sign: int | None
    look: Look
    label: str
    tooltip: str
    before: bool = False
    """Whether the label stands before the mark rather than behind it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A pane: a window from its start to its end."""

    x: float
    y: float
    width: float
    sign: int | None
    look: BarLook
    label: str
    tooltip: str
    inside: bool = True
    """Whether the label has room in the bar; else it stands behind it."""
    note: str = ""
    """What else is to be said: that it is early, or late, or takes the place of others."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a message reaches in time: a line from one moment to another."""

    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class CauseLine:
    """A line from a message to its result. With a corner it runs to the right first, then down."""

    x: float
    y: float
    to_x: float
    to_y: float
    corner: bool = False


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A strip of the drawing with its heading: at the left the number of a step, then the stream, then the key of a
    message or the number of a partition. `striped` gives the row a ground of its own."""

    y: float
    height: float
    title: str
    number: str = ""
    key: str = ""
    soft: bool = False
    striped: bool = False


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A time on the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A line of the legend: what it shows a sample of, and what that stands for."""

    sample: Look | Literal["pane", "watermark", "reach", "key"]
    text: str
    sign: int | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A whole drawing. `passed` are the corners of the watermark's way, from above."""

    title: str
    axis: str
    width: float
    titles: float
    """Where the names of streams stand; `keys` is where keys do, `left` where time begins."""
    keys: float
    left: float
    top: float
    bottom: float
    ticks: tuple[AxisTick, ...]
    rows: tuple[FigureRow, ...]
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bar, ...] = ()
    reaches: tuple[Reach, ...] = ()
    links: tuple[CauseLine, ...] = ()
    passed: tuple[tuple[float, float], ...] = ()
    legend: tuple[LegendEntry, ...] = ()

"""The figure: all parts of a drawing of a run, with their places in pixels. y grows downwards."""

from dataclasses import dataclass
from typing import Literal

MarkLook = Literal["sent", "idle", "late", "failed", "made"]
"""What a mark stands for: a message that was sent; one without a result; one that was late, or failed; an output."""

BarLook = Literal["early", "on_time", "late"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A message. `sign` is the number of its key, by which shape and colour are chosen; None without key."""

    x: float
    y: float
    sign: int | None
    look: MarkLook
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
    """Whether the label fits into the bar; else it stands behind it."""
    note: str = ""
    """A remark: that the pane is early or late, or replaces others."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of time that belongs to a message, as a line from its start to its end."""

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
    message or the number of a partition. `striped` gives the row a background of its own."""

    y: float
    height: float
    title: str
    number: str = ""
    key: str = ""
    soft: bool = False
    striped: bool = False


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A mark of the time axis: where it stands from the left, in units of the drawing, and its text."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """An entry of the legend: the sample that it shows, and the text beside it."""

    sample: MarkLook | Literal["pane", "watermark", "interval", "key"]
    text: str
    sign: int | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A whole drawing. `passed` are the corners of the watermark's line, from top to bottom."""

    title: str
    axis: str
    width: float
    titles: float
    """The x of the names of streams; `keys` is the x of keys, `left` that of the start of the axis."""
    keys: float
    left: float
    top: float
    bottom: float
    ticks: tuple[AxisTick, ...]
    rows: tuple[FigureRow, ...]
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bar, ...] = ()
    intervals: tuple[Interval, ...] = ()
    links: tuple[CauseLine, ...] = ()
    passed: tuple[tuple[float, float], ...] = ()
    legend: tuple[LegendEntry, ...] = ()

"""The frame of a drawing, which both layouts fill: its axis, the signs of keys, and the marks and bars of messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ....dsl.message import Message, Pane
from ...kernel.windows.aligned import EVERYTHING
from ..recording import RecordedMessage, Recording, Step
from .axis import Axis, axis_of
from .figure import Bar, Figure, FigureRow, Interval, LegendEntry, Mark, MarkLook
from .labels import HEADING, SMALL, TEXT, Label, fitting, key_label, tooltip_text

Across = Literal["event", "clock"]
"""What runs from left to right: event time, or the driver's clock."""

Intervals = Mapping[str, Callable[[Message[Any]], tuple[int, int]]]
"""By stream: the interval of time that is drawn behind a message, from its start to its end, in ms since epoch."""

# The width of a column of text on a page; a wider drawing would be scaled down, and its letters with it.
WIDTH = 700.0
MARGIN = 14.0
HEAD = 34.0
ROW = 24.0
# Lower than a row, or the bars of neighbouring rows would touch.
BAR = 17.0
SIZE = 5.5
"""Half of the width of a mark."""

_BEHIND = 88.0
"""Pixels behind the last tick, for labels and for outputs at the end of input."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is to be drawn: see `draw_run`."""

    across: Across = "event"
    panes: bool = True
    """Whether panes are drawn as bars: only where the axis shows the time that their windows go by."""
    streams: tuple[str, ...] = ()
    intervals: Intervals = field(default_factory=dict)
    interval_legend: str = ""
    label: Label = str


@dataclass(frozen=True, slots=True)
class FigureFrame:
    """What both layouts share: the run, the options, the axis, and the number of each key."""

    run: Recording
    options: Options
    axis: Axis
    signs: Mapping[str, int]
    titles: float
    keys: float

    def x(self, entry: RecordedMessage, step: Step) -> float:
        """The x in pixels, by the timestamp, or by the clock when the message came; times outside are at the edge."""
        return self.axis.x(entry.message.timestamp if self.options.across == "event" else step.clock)

    def sign(self, message: Message[Any]) -> int | None:
        """The number of a message's key."""
        return None if message.key is None else self.signs[key_label(message.key)]

    def mark(self, entry: RecordedMessage, step: Step, y: float, look: MarkLook) -> Mark:
        """The mark with its label, on the left of it where the right edge of the drawing leaves no space."""
        x, label = self.x(entry, step), fitting(self.options.label(entry.message.value))
        before = x + SIZE + 5 + TEXT.width(label) > WIDTH - 4
        return Mark(x, y, self.sign(entry.message), look, label, tooltip_text(entry.lane.stream, entry.message), before)

    def bar(self, entry: RecordedMessage, pane: Pane[Any, Any], y: float) -> Bar:
        """The bar of a pane; a window without end takes all the width."""
        x, end = self.axis.x(pane.window.start), self.axis.x(pane.window.end)
        if pane.window == EVERYTHING:
            end = WIDTH - MARGIN
        label = fitting(self.options.label(pane))
        inside = end - x > TEXT.width(label) + 2 * SIZE + 16
        sign, tooltip = self.sign(entry.message), tooltip_text(entry.lane.stream, entry.message)
        return Bar(x, y, round(end - x, 1), sign, pane.kind, label, tooltip, inside, _note(pane))

    def figure(
        self, how: str, rows: tuple[FigureRow, ...], bottom: float, legend: tuple[LegendEntry, ...], **parts: Any
    ) -> Figure:
        """What a layout has placed, with the axis and ticks that both layouts share; nothing is drawn yet."""
        return Figure(
            title=f"{self.run.name}, {how}",
            axis=_axis_title(self.axis, self.options),
            width=WIDTH,
            titles=self.titles,
            keys=self.keys,
            left=self.axis.left,
            top=HEAD,
            bottom=bottom,
            ticks=tuple(self.axis.ticks()),
            rows=rows,
            legend=legend,
            **parts,
        )

    def intervals(self, entry: RecordedMessage, step: Step, y: float) -> Iterator[Interval]:
        """The line of a message's interval, if its stream has intervals; it begins behind the message's label."""
        interval = self.options.intervals.get(entry.lane.stream)
        if interval is not None:
            start, end = map(self.axis.x, interval(entry.message))
            begin = min(max(start, self.label_end(entry, step)), end)
            yield Interval(begin, y, round(end - begin, 1))

    def label_end(self, entry: RecordedMessage, step: Step) -> float:
        """The x where a line that starts at a message may begin: behind its label."""
        mark = self.mark(entry, step, 0, "sent")
        return mark.x + SIZE + (0 if mark.before else 5 + TEXT.width(mark.label) + 3)


def frame_of(
    run: Recording, options: Options, titles: Iterable[str], keys: Iterable[str], indent: float = 0.0
) -> FigureFrame:
    """The frame of a run's drawing, with space for the titles and keys of its rows left of the axis."""
    times = list(_times(run, options))
    widest = max(map(HEADING.width, titles), default=0.0)
    key = max(map(TEXT.width, keys), default=0.0)
    head = MARGIN + SMALL.width(_axis_title(axis_of(times, 0, 1), options)) + 16
    column = MARGIN + indent + widest + 8
    left = round(max(head, column + key + (14 if key else 6)))
    axis = axis_of(times, left, WIDTH - MARGIN - _BEHIND)
    named = (entry.message.key for entry in drawn_messages(run, options) if entry.message.key is not None)
    signs = {key: number for number, key in enumerate(dict.fromkeys(map(key_label, named)))}
    return FigureFrame(run, options, axis, signs, MARGIN + indent, round(column))


def _axis_title(axis: Axis, options: Options) -> str:
    return f"{'event time' if options.across == 'event' else 'clock'}, {axis.unit}"


def _note(pane: Pane[Any, Any]) -> str:
    """The remark on a pane: that it is early or late, or which panes it replaces."""
    parts: list[str] = [] if pane.kind == "on_time" else [pane.kind]
    if pane.replaces:
        parts.append(f"in place of {len(pane.replaces)} other{'s' if len(pane.replaces) > 1 else ''}")
    return ", ".join(parts)


def drawn_messages(run: Recording, options: Options) -> Iterator[RecordedMessage]:
    """The messages of the streams that are drawn, in the order in which they came."""
    for step in run.steps:
        yield from wanted(step.sent, options)
        yield from wanted(step.made, options)


def wanted(messages: Iterable[RecordedMessage], options: Options) -> list[RecordedMessage]:
    """Those messages whose streams are drawn."""
    return [entry for entry in messages if entry.lane.stream in options.streams]


def pane_of(entry: RecordedMessage, options: Options) -> Pane[Any, Any] | None:
    """The pane in a message, if it is drawn as a bar."""
    value = entry.message.value
    return value if isinstance(value, Pane) and options.panes else None


def look_of(step: Step) -> MarkLook:
    """How the message of a step is drawn. Of several messages it is unknown which was late."""
    if len(step.sent) > 1:
        return "sent"
    return "failed" if step.failed else "late" if step.late else "sent"


def _times(run: Recording, options: Options) -> Iterator[int]:
    """All times that the axis must contain."""
    for entry in drawn_messages(run, options):
        pane, interval = pane_of(entry, options), options.intervals.get(entry.lane.stream)
        if pane is not None and pane.window != EVERYTHING:
            yield from (pane.window.start, pane.window.end)
        if options.across == "event":
            yield entry.message.timestamp
        if interval is not None:
            yield from interval(entry.message)
    if options.across == "clock":
        yield from (step.clock for step in run.steps)


def samples(
    frame: FigureFrame, marks: Sequence[Mark], bars: Sequence[Bar], intervals: Sequence[Interval]
) -> Iterator[LegendEntry]:
    """The entries of the legend for what the drawing has."""
    looks = {mark.look for mark in marks}
    yield from (LegendEntry(look, text) for look, text in _LOOKS.items() if look in looks)
    if bars:
        yield LegendEntry("pane", "pane: a window, and what it holds")
    if intervals:
        yield LegendEntry("interval", frame.options.interval_legend)


_LOOKS: Mapping[MarkLook, str] = {
    "sent": "sent",
    "idle": "nothing came of it",
    "late": "too late",
    "failed": "failed",
    "made": "came out",
}

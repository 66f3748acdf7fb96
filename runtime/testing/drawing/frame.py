"""The frame of a drawing, which both layouts fill: its axis, the signs of keys, and the marks and bars of messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ....dsl.message import Message, Pane
from ...kernel.windows.aligned import EVERYTHING
from ..recording import RecordedMessage, Recording, Step
from .axis import Axis, axis_of
from .figure import Bar, Figure, FigureRow, LegendEntry, Look, Mark, Reach
from .labels import HEADING, SMALL, TEXT, Label, fitting, key_label, tooltip_text

Across = Literal["event", "clock"]
"""What runs from left to right: event time, or the driver's clock."""

Reaches = Mapping[str, Callable[[Message[Any]], tuple[int, int]]]
"""For a stream, from when to when each of its messages matters, in ms since epoch."""

WIDTH = 700.0
MARGIN = 14.0
HEAD = 34.0
ROW = 24.0
BAR = 17.0
SIZE = 5.5
"""Half of the width of a mark."""

_BEHIND = 88.0
"""Room behind the last tick, for labels and for what the end of input brings."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is to be drawn: see `draw_run`."""

    across: Across = "event"
    panes: bool = True
    """Whether windows have a place on the axis: they are of event time, or of the clock."""
    streams: tuple[str, ...] = ()
    reach: Reaches = field(default_factory=dict)
    reach_means: str = ""
    label: Label = str


@dataclass(frozen=True, slots=True)
class FigureFrame:
    """What a layout is made in: the run, the options, the axis, and the number of each key."""

    run: Recording
    options: Options
    axis: Axis
    signs: Mapping[str, int]
    titles: float
    keys: float

    def x(self, noted: RecordedMessage, step: Step) -> float:
        """Where a message stands."""
        return self.axis.x(noted.message.timestamp if self.options.across == "event" else step.clock)

    def sign(self, message: Message[Any]) -> int | None:
        """The number of a message's key."""
        return None if message.key is None else self.signs[key_label(message.key)]

    def mark(self, noted: RecordedMessage, step: Step, y: float, look: Look) -> Mark:
        """The mark of a message at some height."""
        x, label = self.x(noted, step), fitting(self.options.label(noted.message.value))
        before = x + SIZE + 5 + TEXT.width(label) > WIDTH - 4
        return Mark(x, y, self.sign(noted.message), look, label, tooltip_text(noted.lane.stream, noted.message), before)

    def bar(self, noted: RecordedMessage, pane: Pane[Any, Any], y: float) -> Bar:
        """The bar of a pane; a window without end takes all the room."""
        x, end = self.axis.x(pane.window.start), self.axis.x(pane.window.end)
        if pane.window == EVERYTHING:
            end = WIDTH - MARGIN
        label = fitting(self.options.label(pane))
        inside = end - x > TEXT.width(label) + 2 * SIZE + 16
        sign, tooltip = self.sign(noted.message), tooltip_text(noted.lane.stream, noted.message)
        return Bar(x, y, round(end - x, 1), sign, pane.kind, label, tooltip, inside, _note(pane))

    def figure(
        self, how: str, rows: tuple[FigureRow, ...], bottom: float, legend: tuple[LegendEntry, ...], **parts: Any
    ) -> Figure:
        """The figure of a layout."""
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

    def reaches(self, noted: RecordedMessage, step: Step, y: float) -> Iterator[Reach]:
        """The line of how far a message reaches, if its stream's do."""
        reach = self.options.reach.get(noted.lane.stream)
        if reach is not None:
            start, end = map(self.axis.x, reach(noted.message))
            begin = min(max(start, self.label_end(noted, step)), end)
            yield Reach(begin, y, round(end - begin, 1))

    def label_end(self, noted: RecordedMessage, step: Step) -> float:
        """Where a line that goes out of a message may begin."""
        mark = self.mark(noted, step, 0, "sent")
        return mark.x + SIZE + (0 if mark.before else 5 + TEXT.width(mark.label) + 3)


def frame_of(
    run: Recording, options: Options, titles: Iterable[str], keys: Iterable[str], indent: float = 0.0
) -> FigureFrame:
    """The frame of a run's drawing, with room for the titles and keys of its rows, fitting ones, left of its axis."""
    times = list(_times(run, options))
    widest = max(map(HEADING.width, titles), default=0.0)
    key = max(map(TEXT.width, keys), default=0.0)
    head = MARGIN + SMALL.width(_axis_title(axis_of(times, 0, 1), options)) + 16
    column = MARGIN + indent + widest + 8
    left = round(max(head, column + key + (14 if key else 6)))
    axis = axis_of(times, left, WIDTH - MARGIN - _BEHIND)
    named = (noted.message.key for noted in shown(run, options) if noted.message.key is not None)
    signs = {key: number for number, key in enumerate(dict.fromkeys(map(key_label, named)))}
    return FigureFrame(run, options, axis, signs, MARGIN + indent, round(column))


def _axis_title(axis: Axis, options: Options) -> str:
    return f"{'event time' if options.across == 'event' else 'clock'}, {axis.unit}"


def _note(pane: Pane[Any, Any]) -> str:
    """What is to be said of a pane besides what it holds."""
    parts: list[str] = [] if pane.kind == "on_time" else [pane.kind]
    if pane.replaces:
        parts.append(f"in place of {len(pane.replaces)} other{'s' if len(pane.replaces) > 1 else ''}")
    return ", ".join(parts)


def shown(run: Recording, options: Options) -> Iterator[RecordedMessage]:
    """The messages of the streams that are drawn, in the order in which they came."""
    for step in run.steps:
        yield from wanted(step.sent, options)
        yield from wanted(step.made, options)


def wanted(messages: Iterable[RecordedMessage], options: Options) -> list[RecordedMessage]:
    """Those of the streams that are drawn."""
    return [noted for noted in messages if noted.lane.stream in options.streams]


def pane_of(noted: RecordedMessage, options: Options) -> Pane[Any, Any] | None:
    """The pane that a message is, where it can be drawn as one."""
    value = noted.message.value
    return value if isinstance(value, Pane) and options.panes else None


def look_of(step: Step) -> Look:
    """What became of the message of a step; of several, nobody knows which it was."""
    if len(step.sent) > 1:
        return "sent"
    return "failed" if step.failed else "late" if step.late else "sent"


def _times(run: Recording, options: Options) -> Iterator[int]:
    """All moments that must have a place."""
    for noted in shown(run, options):
        pane, reach = pane_of(noted, options), options.reach.get(noted.lane.stream)
        if pane is not None and pane.window != EVERYTHING:
            yield from (pane.window.start, pane.window.end)
        if options.across == "event":
            yield noted.message.timestamp
        if reach is not None:
            yield from reach(noted.message)
    if options.across == "clock":
        yield from (step.clock for step in run.steps)


def samples(
    frame: FigureFrame, marks: Sequence[Mark], bars: Sequence[Bar], reaches: Sequence[Reach]
) -> Iterator[LegendEntry]:
    """The lines of the legend for what there is."""
    looks = {mark.look for mark in marks}
    yield from (LegendEntry(look, text) for look, text in _LOOKS.items() if look in looks)
    if bars:
        yield LegendEntry("pane", "pane: a window, and what it holds")
    if reaches:
        yield LegendEntry("reach", frame.options.reach_means)


_LOOKS: Mapping[Look, str] = {
    "sent": "sent",
    "idle": "nothing came of it",
    "late": "too late",
    "failed": "failed",
    "made": "came out",
}

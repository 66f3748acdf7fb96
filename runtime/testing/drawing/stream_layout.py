"""The layout by streams: a lane for each partition, and lines from messages to their results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..recording import RecordedMessage, Recording, Step, StreamLane
from .figure import Bar, CauseLine, Figure, FigureRow, Interval, LegendEntry, Mark, MarkLook
from .frame import BAR, HEAD, ROW, SIZE, FigureFrame, Options, frame_of, look_of, pane_of, samples, wanted
from .labels import TEXT, title_of

_APART = 14.0
"""Pixels between two lanes."""
_ORDER = {"source": 0, "intermediate": 1}
"""Lanes of these kinds come first, then all others as the plan has them."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A message, the step that brought it, and where it came from."""

    entry: RecordedMessage
    step: Step
    cause: RecordedMessage | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """Messages in their lanes. `y` has the y of each message by its `id()`, since messages may be equal."""

    events: tuple[_Event, ...]
    y: Mapping[int, float]
    rows: tuple[FigureRow, ...]
    bottom: float


def by_stream(run: Recording, options: Options) -> Figure:
    """Lay a run out: a lane for each partition of each stream."""
    lanes = sorted((lane for lane in run.lanes if lane.stream in options.streams), key=_rank)
    frame = frame_of(run, options, (title_of(lane.stream) for lane in lanes), map(_number, lanes))
    placed = _placed(frame, lanes, tuple(_events(run, options)))
    marks, bars = tuple(_marks(frame, placed)), tuple(_bars(frame, placed))
    intervals = tuple(_intervals(frame, placed))
    keys = (LegendEntry("key", key, number) for key, number in frame.signs.items())
    legend = (*keys, *samples(frame, marks, bars, intervals))
    parts = {"marks": marks, "bars": bars, "intervals": intervals, "links": tuple(_links(frame, placed))}
    return frame.figure("stream by stream", placed.rows, placed.bottom, legend, **parts)


def _rank(lane: StreamLane) -> int:
    return _ORDER.get(lane.kind, len(_ORDER))


def _number(lane: StreamLane) -> str:
    return str(lane.partition) if lane.partitions > 1 else ""


def _events(run: Recording, options: Options) -> Iterator[_Event]:
    before: list[RecordedMessage] = []
    for step in run.steps:
        sent = wanted(step.sent, options)
        before += sent
        yield from (_Event(entry, step) for entry in sent)
        for entry in wanted(step.made, options):
            yield _Event(entry, step, _cause(entry, sent, before))


def _cause(
    result: RecordedMessage, sent: list[RecordedMessage], before: list[RecordedMessage]
) -> RecordedMessage | None:
    """The cause of a message: the one sent in its step, else the last with its timestamp, if possible with its key."""
    if len(sent) == 1 and sent[0].message.timestamp == result.message.timestamp:
        return sent[0]
    alike = [entry for entry in before if entry.message.timestamp == result.message.timestamp]
    same_key = [entry for entry in alike if entry.message.key == result.message.key]
    causes = (same_key or alike)[-1:] or (sent if len(sent) == 1 else [])
    return causes[0] if causes else None


def _marks(frame: FigureFrame, placed: _Placed) -> Iterator[Mark]:
    causes = {id(event.cause) for event in placed.events}
    for event in placed.events:
        if pane_of(event.entry, frame.options) is None:
            look = _look(event, bool(frame.run.keeps) or id(event.entry) in causes)
            yield frame.mark(event.entry, event.step, placed.y[id(event.entry)], look)


def _look(event: _Event, has_results: bool) -> MarkLook:
    if event.entry.lane.kind != "source":
        return "made"
    look = look_of(event.step)
    return look if look != "sent" or has_results else "idle"


def _bars(frame: FigureFrame, placed: _Placed) -> Iterator[Bar]:
    for event in placed.events:
        pane = pane_of(event.entry, frame.options)
        if pane is not None:
            yield frame.bar(event.entry, pane, placed.y[id(event.entry)] - BAR / 2)


def _placed(frame: FigureFrame, lanes: Sequence[StreamLane], events: tuple[_Event, ...]) -> _Placed:
    """Give each lane as many lines as its messages need, and each message its line."""
    ends = {id(event.cause): frame.x(event.entry, event.step) for event in events if frame.options.across == "clock"}
    heights: dict[int, float] = {}
    rows: list[FigureRow] = []
    y = HEAD
    for lane in lanes:
        lines = _lines(frame, [event for event in events if event.entry.lane == lane], ends)
        heights.update((id, y + _APART / 2 + line * ROW + ROW / 2) for id, line in lines.items())
        rows.append(_heading(lane, y, _APART + ROW * (1 + max(lines.values(), default=0))))
        y += rows[-1].height
    return _Placed(events, heights, tuple(rows), y)


def _heading(lane: StreamLane, y: float, height: float) -> FigureRow:
    emitted = lane.kind != "source"
    title = title_of(lane.stream)
    return FigureRow(y, height, title, key=_number(lane), soft=emitted, striped=emitted)


def _lines(frame: FigureFrame, members: Sequence[_Event], ends: Mapping[int, float]) -> dict[int, int]:
    """The number of each message's line within its lane, by the message's `id()`: the first line that has space. `ends`
    has the x where the link from a message to its result ends."""
    lines: dict[int, int] = {}
    taken: list[float] = []
    for event in sorted(members, key=lambda event: _extent(frame, event)[0]):
        start, end = _extent(frame, event)
        end = max(end, ends.get(id(event.entry), end))
        line = next((number for number, last in enumerate(taken) if last <= start), len(taken))
        taken[line : line + 1] = [end]
        lines[id(event.entry)] = line
    return lines


def _extent(frame: FigureFrame, event: _Event) -> tuple[float, float]:
    """The least and the largest x of a message, with its label and its interval."""
    pane = pane_of(event.entry, frame.options)
    if pane is not None:
        bar = frame.bar(event.entry, pane, 0)
        return bar.x, bar.x + bar.width + (4 if bar.inside else TEXT.width(bar.label) + 10)
    mark = frame.mark(event.entry, event.step, 0, "sent")
    text = TEXT.width(mark.label) + 2 * SIZE
    edges = [mark.x - SIZE, mark.x + SIZE, mark.x - text if mark.before else mark.x + text]
    for interval in frame.intervals(event.entry, event.step, 0):
        edges += [interval.x, interval.x + interval.width + 4]
    return min(edges), max(edges)


def _links(frame: FigureFrame, placed: _Placed) -> Iterator[CauseLine]:
    steps = {id(event.entry): event.step for event in placed.events}
    for event in placed.events:
        cause, result = event.cause, event.entry
        if cause is not None and pane_of(result, frame.options) is None:
            start, end = frame.x(cause, steps[id(cause)]), frame.x(result, event.step)
            y, to_y = placed.y[id(cause)], placed.y[id(result)] - SIZE
            corner = frame.options.across == "clock" and end > start
            begin = min(frame.label_end(cause, steps[id(cause)]), end)
            yield CauseLine(begin, y, end, to_y, corner) if corner else CauseLine(start, y + SIZE, end, to_y)


def _intervals(frame: FigureFrame, placed: _Placed) -> Iterator[Interval]:
    for event in placed.events:
        yield from frame.intervals(event.entry, event.step, placed.y[id(event.entry)])

"""The layout by streams: a lane for each partition, and lines from messages to their results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..recording import RecordedMessage, Recording, Step, StreamLane
from .figure import Bar, CauseLine, Figure, FigureRow, LegendEntry, Look, Mark, Reach
from .frame import BAR, HEAD, ROW, SIZE, FigureFrame, Options, frame, look_of, pane_of, samples, wanted
from .labels import TEXT, title_of

_APART = 14.0
"""Room between two lanes."""
_ORDER = {"source": 0, "intermediate": 1}
"""Lanes of these kinds come first, then all others as the plan has them."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A message, the step that brought it, and where it came from."""

    noted: RecordedMessage
    step: Step
    cause: RecordedMessage | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """Messages in their lanes: `y` is the height of each, by identity, for equal ones may come twice."""

    events: tuple[_Event, ...]
    y: Mapping[int, float]
    rows: tuple[FigureRow, ...]
    bottom: float


def by_stream(run: Recording, options: Options) -> Figure:
    """Lay a run out: a lane for each partition of each stream."""
    lanes = sorted((lane for lane in run.lanes if lane.stream in options.streams), key=_rank)
    found = frame(run, options, (title_of(lane.stream) for lane in lanes), map(_number, lanes))
    placed = _placed(found, lanes, tuple(_events(run, options)))
    marks, bars = tuple(_marks(found, placed)), tuple(_bars(found, placed))
    reaches = tuple(_reaches(found, placed))
    keys = (LegendEntry("key", key, number) for key, number in found.signs.items())
    legend = (*keys, *samples(found, marks, bars, reaches))
    parts = {"marks": marks, "bars": bars, "reaches": reaches, "links": tuple(_links(found, placed))}
    return found.figure("stream by stream", placed.rows, placed.bottom, legend, **parts)


def _rank(lane: StreamLane) -> int:
    return _ORDER.get(lane.kind, len(_ORDER))


def _number(lane: StreamLane) -> str:
    return str(lane.partition) if lane.partitions > 1 else ""


def _events(run: Recording, options: Options) -> Iterator[_Event]:
    before: list[RecordedMessage] = []
    for step in run.steps:
        sent = wanted(step.sent, options)
        before += sent
        yield from (_Event(noted, step) for noted in sent)
        for noted in wanted(step.made, options):
            yield _Event(noted, step, _cause(noted, sent, before))


def _cause(made: RecordedMessage, sent: list[RecordedMessage], before: list[RecordedMessage]) -> RecordedMessage | None:
    """The cause of a message: the one sent in its step, else the last with its timestamp, if possible with its key."""
    if len(sent) == 1 and sent[0].message.timestamp == made.message.timestamp:
        return sent[0]
    alike = [noted for noted in before if noted.message.timestamp == made.message.timestamp]
    same_key = [noted for noted in alike if noted.message.key == made.message.key]
    found = (same_key or alike)[-1:] or (sent if len(sent) == 1 else [])
    return found[0] if found else None


def _marks(found: FigureFrame, placed: _Placed) -> Iterator[Mark]:
    causes = {id(event.cause) for event in placed.events}
    for event in placed.events:
        if pane_of(event.noted, found.options) is None:
            look = _look(event, bool(found.run.keeps) or id(event.noted) in causes)
            yield found.mark(event.noted, event.step, placed.y[id(event.noted)], look)


def _look(event: _Event, fertile: bool) -> Look:
    if event.noted.lane.kind != "source":
        return "made"
    look = look_of(event.step)
    return look if look != "sent" or fertile else "idle"


def _bars(found: FigureFrame, placed: _Placed) -> Iterator[Bar]:
    for event in placed.events:
        pane = pane_of(event.noted, found.options)
        if pane is not None:
            yield found.bar(event.noted, pane, placed.y[id(event.noted)] - BAR / 2)


def _placed(found: FigureFrame, lanes: Sequence[StreamLane], events: tuple[_Event, ...]) -> _Placed:
    """Give each lane as many lines as its messages need, and each message its line."""
    ends = {id(event.cause): found.x(event.noted, event.step) for event in events if found.options.across == "clock"}
    heights: dict[int, float] = {}
    rows: list[FigureRow] = []
    y = HEAD
    for lane in lanes:
        lines = _lines(found, [event for event in events if event.noted.lane == lane], ends)
        heights.update((id, y + _APART / 2 + line * ROW + ROW / 2) for id, line in lines.items())
        rows.append(_heading(lane, y, _APART + ROW * (1 + max(lines.values(), default=0))))
        y += rows[-1].height
    return _Placed(events, heights, tuple(rows), y)


def _heading(lane: StreamLane, y: float, height: float) -> FigureRow:
    made = lane.kind != "source"
    title = title_of(lane.stream)
    return FigureRow(y, height, title, key=_number(lane), soft=made, striped=made)


def _lines(found: FigureFrame, members: Sequence[_Event], ends: Mapping[int, float]) -> dict[int, int]:
    """The line of each message of a lane, by identity: the first one that has room for it. `ends` tells how far the
    lines to what came of messages go along it."""
    lines: dict[int, int] = {}
    taken: list[float] = []
    for event in sorted(members, key=lambda event: _extent(found, event)[0]):
        start, end = _extent(found, event)
        end = max(end, ends.get(id(event.noted), end))
        line = next((number for number, reached in enumerate(taken) if reached <= start), len(taken))
        taken[line : line + 1] = [end]
        lines[id(event.noted)] = line
    return lines


def _extent(found: FigureFrame, event: _Event) -> tuple[float, float]:
    """From where to where a message takes room, its label and its reach included."""
    pane = pane_of(event.noted, found.options)
    if pane is not None:
        bar = found.bar(event.noted, pane, 0)
        return bar.x, bar.x + bar.width + (4 if bar.inside else TEXT.width(bar.label) + 10)
    mark = found.mark(event.noted, event.step, 0, "sent")
    text = TEXT.width(mark.label) + 2 * SIZE
    edges = [mark.x - SIZE, mark.x + SIZE, mark.x - text if mark.before else mark.x + text]
    for reach in found.reaches(event.noted, event.step, 0):
        edges += [reach.x, reach.x + reach.width + 4]
    return min(edges), max(edges)


def _links(found: FigureFrame, placed: _Placed) -> Iterator[CauseLine]:
    steps = {id(event.noted): event.step for event in placed.events}
    for event in placed.events:
        cause, made = event.cause, event.noted
        if cause is not None and pane_of(made, found.options) is None:
            start, end = found.x(cause, steps[id(cause)]), found.x(made, event.step)
            y, to_y = placed.y[id(cause)], placed.y[id(made)] - SIZE
            corner = found.options.across == "clock" and end > start
            begin = min(found.label_end(cause, steps[id(cause)]), end)
            yield CauseLine(begin, y, end, to_y, corner) if corner else CauseLine(start, y + SIZE, end, to_y)


def _reaches(found: FigureFrame, placed: _Placed) -> Iterator[Reach]:
    for event in placed.events:
        yield from found.reaches(event.noted, event.step, placed.y[id(event.noted)])

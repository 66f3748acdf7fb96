"""The layout by steps: a row for each message that was sent, with rows for its results below."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..recording import RecordedMessage, Recording, Step
from .figure import Bar, Figure, FigureRow, Interval, LegendEntry, Mark
from .frame import (
    BAR,
    HEAD,
    MARGIN,
    ROW,
    WIDTH,
    FigureFrame,
    Options,
    drawn_messages,
    frame_of,
    look_of,
    pane_of,
    samples,
    wanted,
)
from .labels import key_label, title_of

_NUMBER = 22.0
_PASSED = {"event": "watermark; behind it, time has passed", "clock": "the clock; behind it, time has passed"}
_TITLES = {"advance": "time passes", "commit": "commit", "end": "end of input"}


@dataclass(slots=True)
class _Page:
    """The parts of the figure so far. `steps` has each step, with the y below which its watermark holds."""

    y: float = HEAD
    rows: list[FigureRow] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    steps: list[tuple[float, Step]] = field(default_factory=list)


def by_step(run: Recording, options: Options) -> Figure:
    """Lay a run out: time from left to right, and the order in which things happened from top to bottom."""
    messages = list(drawn_messages(run, options))
    titles, keys = (
        (title_of(entry.lane.stream) for entry in messages),
        (key_label(entry.message.key) for entry in messages),
    )
    frame = frame_of(run, options, titles, keys, _NUMBER)
    page = _Page()
    for number, step in enumerate(run.steps, start=1):
        _step(page, frame, number, step)
    passed = tuple(_way(page, frame)) if run.keeps and options.panes else ()
    parts = {"marks": tuple(page.marks), "bars": tuple(page.bars), "intervals": tuple(page.intervals), "passed": passed}
    legend = list(samples(frame, page.marks, page.bars, page.intervals))
    if passed:
        legend.append(LegendEntry("watermark", _PASSED[options.across]))
    return frame.figure("step by step", tuple(page.rows), page.y, tuple(legend), **parts)


def _step(page: _Page, frame: FigureFrame, number: int, step: Step) -> None:
    """Add a row for each message of a step, or one that says what else it was, and the rows of its results."""
    sent = wanted(step.sent, frame.options)
    for at, entry in enumerate(sent):
        middle = _row(page, entry, str(number) if at == 0 else "")
        page.marks.append(frame.mark(entry, step, middle, look_of(step)))
        page.intervals += frame.intervals(entry, step, middle)
    if not sent:
        page.rows.append(FigureRow(page.y, ROW, _TITLES.get(step.kind, "sent elsewhere"), str(number), soft=True))
        page.y += ROW
    page.steps.append((page.y, step))
    for entry in wanted(step.made, frame.options):
        _result(page, frame, entry, step)


def _result(page: _Page, frame: FigureFrame, entry: RecordedMessage, step: Step) -> None:
    pane = pane_of(entry, frame.options)
    middle = _row(page, entry, "")
    if pane is not None:
        page.bars.append(frame.bar(entry, pane, middle - BAR / 2))
    else:
        page.marks.append(frame.mark(entry, step, middle, "made"))


def _row(page: _Page, entry: RecordedMessage, number: str) -> float:
    """Add a row for a message; the y of its middle."""
    emitted = entry.lane.kind != "source"
    title = title_of(entry.lane.stream)
    key = key_label(entry.message.key)
    page.rows.append(FigureRow(page.y, ROW, title, number, key, soft=emitted, striped=emitted))
    page.y += ROW
    return page.y - ROW / 2


def _way(page: _Page, frame: FigureFrame) -> Iterator[tuple[float, float]]:
    """The corners of the watermark's line. It moves below the messages of a step, and stays until the next step."""
    known = [(y, step) for y, step in page.steps if step.watermark is not None]
    x = frame.axis.left
    for (y, step), below in zip(known, [*(y for y, _ in known[1:]), page.y], strict=True):
        yield x, y
        x = WIDTH - MARGIN if step.kind == "end" else frame.axis.x(step.watermark or 0)
        yield x, y
        yield x, below

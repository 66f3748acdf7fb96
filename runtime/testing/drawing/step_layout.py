"""The layout by steps: a row for each message that was sent, with rows for its results below."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..recording import RecordedMessage, Recording, Step
from .figure import Bar, Figure, FigureRow, LegendEntry, Mark, Reach
from .frame import (
    BAR,
    HEAD,
    MARGIN,
    ROW,
    WIDTH,
    FigureFrame,
    Options,
    frame_of,
    look_of,
    pane_of,
    samples,
    shown,
    wanted,
)
from .labels import key_label, title_of

_NUMBER = 22.0
_PASSED = {"event": "watermark; behind it, time has passed", "clock": "the clock; behind it, time has passed"}
_TITLES = {"advance": "time passes", "commit": "commit", "end": "end of input"}


@dataclass(slots=True)
class _Page:
    """The parts of the figure so far. `turns` has, for each step, the height from which on its watermark holds."""

    y: float = HEAD
    rows: list[FigureRow] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    reaches: list[Reach] = field(default_factory=list)
    turns: list[tuple[float, Step]] = field(default_factory=list)


def by_step(run: Recording, options: Options) -> Figure:
    """Lay a run out: time from left to right, and the order in which things happened from top to bottom."""
    messages = list(shown(run, options))
    titles, keys = (
        (title_of(noted.lane.stream) for noted in messages),
        (key_label(noted.message.key) for noted in messages),
    )
    frame = frame_of(run, options, titles, keys, _NUMBER)
    page = _Page()
    for number, step in enumerate(run.steps, start=1):
        _step(page, frame, number, step)
    passed = tuple(_way(page, frame)) if run.keeps and options.panes else ()
    parts = {"marks": tuple(page.marks), "bars": tuple(page.bars), "reaches": tuple(page.reaches), "passed": passed}
    legend = list(samples(frame, page.marks, page.bars, page.reaches))
    if passed:
        legend.append(LegendEntry("watermark", _PASSED[options.across]))
    return frame.figure("step by step", tuple(page.rows), page.y, tuple(legend), **parts)


def _step(page: _Page, frame: FigureFrame, number: int, step: Step) -> None:
    """A step: what was sent, or what else was done, and what came out."""
    sent = wanted(step.sent, frame.options)
    for at, noted in enumerate(sent):
        middle = _row(page, noted, str(number) if at == 0 else "")
        page.marks.append(frame.mark(noted, step, middle, look_of(step)))
        page.reaches += frame.reaches(noted, step, middle)
    if not sent:
        page.rows.append(FigureRow(page.y, ROW, _TITLES.get(step.kind, "sent elsewhere"), str(number), soft=True))
        page.y += ROW
    page.turns.append((page.y, step))
    for noted in wanted(step.made, frame.options):
        _result(page, frame, noted, step)


def _result(page: _Page, frame: FigureFrame, noted: RecordedMessage, step: Step) -> None:
    pane = pane_of(noted, frame.options)
    middle = _row(page, noted, "")
    if pane is not None:
        page.bars.append(frame.bar(noted, pane, middle - BAR / 2))
    else:
        page.marks.append(frame.mark(noted, step, middle, "made"))


def _row(page: _Page, noted: RecordedMessage, number: str) -> float:
    """One row more; the height of its middle."""
    emitted = noted.lane.kind != "source"
    title = title_of(noted.lane.stream)
    key = key_label(noted.message.key)
    page.rows.append(FigureRow(page.y, ROW, title, number, key, soft=emitted, striped=emitted))
    page.y += ROW
    return page.y - ROW / 2


def _way(page: _Page, frame: FigureFrame) -> Iterator[tuple[float, float]]:
    """The corners of the line of the watermark. It moves below each step, and holds for the next step."""
    known = [(y, step) for y, step in page.turns if step.watermark is not None]
    x = frame.axis.left
    for (y, step), below in zip(known, [*(y for y, _ in known[1:]), page.y], strict=True):
        yield x, y
        x = WIDTH - MARGIN if step.kind == "end" else frame.axis.x(step.watermark or 0)
        yield x, y
        yield x, below

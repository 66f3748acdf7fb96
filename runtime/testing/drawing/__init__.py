"""Draws a recording of a run over time, as SVG, without any binary.

Comes in: a `Recording`. Goes out: the text of an SVG document. A layout (`step_layout`, `stream_layout`) gives each
message a place in a `Figure`, and `svg` writes the figure down. Read `figure` first."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, get_args

from ....dsl.errors import UsageError
from ....dsl.validation import require
from ....dsl.verb_calls import explained_call
from ..recording import Recording
from .figure import Figure
from .frame import Across, Intervals, Options
from .labels import Label, value_label
from .step_layout import by_step
from .stream_layout import by_stream
from .svg import write

__all__ = ["draw_run"]

By = Literal["step", "stream"]

_LAYOUTS: Mapping[str, Callable[[Recording, Options], Figure]] = {"step": by_step, "stream": by_stream}


@partial(explained_call, error=UsageError)
def draw_run(
    run: Recording,
    *,
    by: By = "step",
    across: Across | None = None,
    streams: Sequence[str] | None = None,
    label: Label = value_label,
    intervals: Intervals | None = None,
    interval_legend: str = "when it matters",
) -> str:
    """Draw a recording as SVG: time runs from left to right. The same recording always gives the same drawing.

    With `by="step"` the steps of the run are drawn from top to bottom, each message above its results. That shows in
    which order messages came, how far the watermark was, and when a window fired. With `by="stream"` each partition of
    a stream is a lane, and lines lead from messages to their results. `across="clock"` shows the driver's clock instead
    of event time, which suits asynchronous calls; it is the default for a run with windows in processing time.

    `streams` are those to draw, by default all but those between stages. `label` turns a value into a short text.
    `intervals` draws a line behind each message of a stream, such as the time for which a join keeps it. It has, by the
    name of the stream, a function that returns the start and the end for a message, in ms of the axis.
    `interval_legend` is the text of these lines in the legend.

    >>> pipeline = Pipeline("lengths")
    >>> pipeline.stream("words", value=str).map(len).send_to("lengths")
    >>> with PipelineDriver(pipeline) as driver:
    ...     recorder = Recorder(driver)
    ...     recorder.send("words", "tea")
    >>> picture = draw_run(recorder.recording, by="stream")
    >>> picture.startswith("<svg") and ">tea</text>" in picture
    True
    """
    require(isinstance(run, Recording), UsageError, f"draw_run got {run!r}", "a Recording", "pass recorder.recording")
    require(by in _LAYOUTS, UsageError, f"draw_run: by={by!r}", '"step" or "stream"')
    own: Across = "clock" if run.clocked else "event"
    good = across is None or across in get_args(Across)
    require(good, UsageError, f"draw_run: across={across!r}", '"event" or "clock"')
    chosen = _usual(run) if streams is None else _known(run, streams)
    options = Options(across or own, across in (None, own), chosen, intervals or {}, interval_legend, label)
    return write(_LAYOUTS[by](run, options))


def _known(run: Recording, streams: Sequence[str]) -> tuple[str, ...]:
    """The streams to draw. Raises UsageError for one that the run does not have."""
    known = list(dict.fromkeys(lane.stream for lane in run.lanes))
    unknown = [name for name in streams if name not in known]
    wrong = f"draw_run: streams= names {', '.join(map(repr, unknown))}"
    require(not unknown, UsageError, wrong, f"streams of the run: {', '.join(map(repr, known))}")
    return tuple(streams)


def _usual(run: Recording) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lane.stream for lane in run.lanes if lane.kind != "intermediate"))

"""Runs to draw, and a figure with nothing in it."""

from datetime import timedelta
from typing import Any

from fluvial.dsl import Pipeline, collect, dead_letter, tumbling
from fluvial.runtime.testing import PipelineDriver, Recorder, Recording
from fluvial.runtime.testing.drawing.figure import Figure, FigureRow

SENT = (("ann", "a", 1), ("bob", "b", 4), ("ann", "c", 12), ("bob", "d", 5))

EMPTY = Figure(
    title="t",
    axis="event time, seconds",
    width=700,
    titles=14,
    keys=80,
    left=150,
    top=34,
    bottom=58,
    ticks=(),
    rows=(FigureRow(34, 24, "words"),),
)


def windows(**options: Any) -> Recording:
    """Tumbling windows of ten seconds; the last of four messages is late."""
    pipeline = Pipeline("windows")
    keyed = pipeline.stream("in", key=str, value=str)
    keyed.window(tumbling(timedelta(seconds=10)), collect(), id="window", **options).send_to("out")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for key, value, at in SENT:
            recorder.send("in", value, key=key, timestamp=at * 1000)
        recorder.end()
        return recorder.recording


def shares() -> Recording:
    """A function that fails on a message, and one that leaves out another."""
    pipeline = Pipeline("shares", on_error=dead_letter())
    large = pipeline.stream("numbers", value=int).filter(lambda number: number < 10)
    large.map(lambda number: 12 // number).send_to("shares")
    with PipelineDriver(pipeline, partitions={"numbers": 2}) as driver:
        recorder = Recorder(driver)
        for at, number in enumerate((4, 0, 20)):
            recorder.send("numbers", number, timestamp=at, partition=at % 2)
        return recorder.recording

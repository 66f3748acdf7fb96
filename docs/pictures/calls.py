"""Scenes of async_flat_map: the same calls, whose results leave in the order of their keys, or as they come."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from docs.pictures.playing import SECOND
from fluvial.dsl import Message, Pipeline
from fluvial.dsl.operators import Order
from fluvial.runtime.testing import PipelineDriver, Recorder, draw_run

_CALLS = (("ann", 5), ("bob", 2), ("ann", 2))
"""A call each second: its key, and how many seconds it takes."""


async def _slow(seconds: int) -> list[int]:
    await asyncio.sleep(seconds)
    return [seconds]


def called(order: Order) -> str:
    """Three calls, one a second."""
    pipeline = Pipeline("calls")
    calls = pipeline.stream("calls", key=str, value=int)
    calls.async_flat_map(_slow, id="slow", order=order).send_to("results")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for key, seconds in _CALLS:
            recorder.send("calls", seconds, key=key)
            recorder.advance(timedelta(seconds=1))
        recorder.advance(timedelta(seconds=3))
        recording = recorder.recording
    intervals, legend = {"calls": _length}, "how long the call takes"
    return draw_run(recording, by="stream", across="clock", label=_seconds, intervals=intervals, interval_legend=legend)


def _length(call: Message[int]) -> tuple[int, int]:
    return call.timestamp, call.timestamp + call.value * SECOND


def _seconds(value: int) -> str:
    return f"{value} s"


SCENES: Mapping[str, Callable[[], str]] = {
    "async_flat_map-by-key": partial(called, "key"),
    "async_flat_map-none": partial(called, "none"),
}

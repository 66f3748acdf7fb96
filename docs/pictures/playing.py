"""What scenes share: seconds and minutes in ms, and a run from messages to its end."""

from collections.abc import Iterable
from typing import Any

from fluvial.dsl import Pipeline
from fluvial.runtime.testing import PipelineDriver, Recorder, Recording

SECOND, MINUTE = 1000, 60_000

Sent = tuple[str, str | None, Any, int]
"""A message of a scene: stream, key, value, and time in ms."""


def played(pipeline: Pipeline, messages: Iterable[Sent], *, partitions: dict[str, int] | int = 1) -> Recording:
    """What becomes of messages that come in that order, to the end of input."""
    with PipelineDriver(pipeline, partitions=partitions) as driver:
        recorder = Recorder(driver)
        for stream, key, value, time in messages:
            recorder.send(stream, value, key=key, timestamp=time)
        recorder.end()
        return recorder.recording

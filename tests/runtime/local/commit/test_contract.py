"""What a commit of the local engine may hold, and what it must not leave out."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.targets import write
from fluvial.dsl import Message, MessageError, Pipeline, count, tumbling
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver

TEN = tumbling(timedelta(milliseconds=10))


async def refused(value: Any) -> list[Any]:
    await asyncio.sleep(0.01)
    raise ValueError(value)


async def refused_at_one(value: int) -> list[int]:
    return [value] if value != 1 else await refused(value)


def test_a_call_that_fails_at_the_very_end_is_an_error_of_the_run() -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    windowed = pipeline.stream("in", value=int, key=str).window(TEN, count(), id="w")
    windowed.async_flat_map(refused, id="call").send_to("out")
    write(system, {"in": [[(b"a", b"1", 0, ())]]})
    with pytest.raises(MessageError, match="the pane of key 'a'"):
        run(pipeline, system=system, until="end")


def test_a_call_that_fails_while_a_commit_waits_keeps_what_came_after_from_being_committed() -> None:
    pipeline = Pipeline("p")
    called = pipeline.stream("in", value=int).async_flat_map(refused_at_one, id="call", order="none")
    called.send_to("out")
    settings = Settings(guarantee="exactly_once", commit_interval=timedelta(milliseconds=5))
    with PipelineDriver(pipeline, commits="timed", settings=settings) as driver:
        driver.send("in", 1)
        driver.send("in", 2)
        with pytest.raises(MessageError):
            driver.advance(timedelta(seconds=1))
        assert driver.read("out") == []


class Buffer:
    """A sink that keeps what it is given, once it is flushed."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.safe: list[Any] = []

    def open(self) -> None:
        self.given = []

    def write(self, messages: Sequence[Message[Any]]) -> None:
        self.given += [message.value for message in messages]

    def flush(self) -> None:
        self.safe += self.given
        self.given = []

    def close(self) -> None:
        """What is not flushed is lost."""


def test_panes_that_the_end_alone_fires_reach_a_sink_once() -> None:
    sink, pipeline = Buffer(), Pipeline("p")
    windowed = pipeline.stream("in", value=int, key=str).window(TEN, count(), id="w")
    windowed.map(lambda pane: pane.value).sink(sink, id="sink")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 1, key="a", timestamp=0)
        for _ in range(2):
            driver.restart()
            driver.end()
            assert sink.safe == [1]


def test_a_crash_before_the_first_commit_does_not_move_the_latest_offsets_to_start_from() -> None:
    pipeline, settings = Pipeline("p"), Settings(offset_default="latest")
    pipeline.stream("in", value=int).send_to("out")
    with PipelineDriver(pipeline, partitions=2, commits="timed", settings=settings) as driver:
        driver.send("in", 1, partition=1)
        driver.crash()
        driver.send("in", 2, partition=1)
        driver.restart()
        driver.commit()
        assert [message.value for message in driver.read("out")] == [1, 2]

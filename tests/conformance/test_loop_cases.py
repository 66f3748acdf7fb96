"""Conformance cases about the run loop: commits beside calls in flight."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import AsyncCollector, AsyncStreamTask, Envelope, Pipeline, TaskCoordinator, ValueState
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)


def texts(*values: str) -> Sequence[Record]:
    return [(None, value.encode(), 0, ()) for value in values]


def committed(driver: PipelineDriver) -> tuple[int, set[str]]:
    """The offset in the last checkpoint of the task, and what is to be read of the output."""
    kept = driver._admin.checkpoints(driver.plan.name).get("in/0")
    offset = decode(kept, "in/0").offsets.get("in", 0) if kept else 0
    return offset, {message.value for message in driver.read("out")}


class Waiting(AsyncStreamTask[Any, str, str]):
    """Takes as many seconds as a message says, and asks for a commit where it says so."""

    async def process(
        self, envelope: Envelope[Any, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        seconds, *verbs = envelope.value.split()
        await asyncio.sleep(int(seconds))
        collector.send(envelope.value)
        if "commit" in verbs:
            coordinator.commit()


class Remembering(Waiting):
    """The same, with a state."""

    last = ValueState(str)


async def waited(value: str) -> list[str]:
    await asyncio.sleep(int(value.split(maxsplit=1)[0]))
    return [value]


def task(kind: type[Waiting]) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.task(kind, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    return pipeline


def calls() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(waited, id="x", order="none").send_to("out")
    return pipeline


def test_r15_a_commit_that_is_asked_for_is_made_while_another_message_is_in_flight() -> None:
    with PipelineDriver(task(Waiting), commits="timed", settings=Settings(async_commit=True)) as driver:
        driver.records.send("in", texts("0 commit", "9"))
        assert committed(driver) == (1, {"0 commit"})
        assert driver.report().read == {"in": 2}
        driver.advance(9 * SECOND)
        driver.commit()
        assert committed(driver) == (2, {"0 commit", "9"})


def test_r15_with_a_state_the_commit_waits_for_it() -> None:
    with PipelineDriver(task(Remembering), commits="timed") as driver:
        driver.records.send("in", texts("0 commit", "9"))
        assert committed(driver) == (0, set())
        driver.advance(9 * SECOND)
        assert committed(driver) == (2, {"0 commit", "9"})


@pytest.mark.parametrize("made", [calls, lambda: task(Waiting)], ids=["calls", "task"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_r15_with_long_calls_in_flight_what_is_before_them_is_committed_each_second(
    made: Callable[[], Pipeline], guarantee: Any
) -> None:
    """A message a second; each tenth takes half a minute. Exactly once, a commit waits for all that is in flight, and
    so does all that comes."""
    offsets = list[int]()
    with PipelineDriver(made(), commits="timed", settings=Settings(guarantee=guarantee)) as driver:
        for second in range(60):
            driver.records.send("in", texts("30" if second % 10 == 0 else "0"))
            driver.advance(SECOND)
            offsets.append(committed(driver)[0])
    if guarantee == "at_least_once":
        assert [offsets[second] for second in (9, 35, 45, 55)] == [0, 10, 20, 30]
        assert len({*offsets}) > 3
    else:
        assert {*offsets} == {0, 1, 31}

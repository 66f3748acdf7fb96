"""A stage in a task of Spark, with and without asynchronous calls; no Spark is needed for that."""

import asyncio
from typing import Any

import pytest

from engines.stages import task_of
from fluvial.dsl import MessageError, Pipeline
from fluvial.runtime.spark.worker.stage_feeder import StageFeeder

RECORDS = [(None, b"%d" % number, number, ()) for number in (1, 2, 3)]


async def halved(value: int) -> list[int]:
    await asyncio.sleep(0)
    return [6 // value]


def calling() -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    numbers.async_flat_map(halved, id="call", max_in_flight=2).send_to("out", value=int)
    return pipeline


def plain() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).map(lambda value: 6 // value).send_to("out", value=int)
    return pipeline


@pytest.mark.parametrize("pipeline", [plain(), calling()], ids=["plain", "calling"])
def test_all_outputs_are_there_once_it_is_fed(pipeline: Pipeline) -> None:
    task = task_of(pipeline)
    with StageFeeder() as feeder:
        feeder.feed(task, "in", 0, range(3), RECORDS)
        (outputs,) = dict(task.drain_outputs()).values()
    assert [value for _, value, _, _ in outputs] == [b"6", b"3", b"2"]


def test_a_call_that_fails_fails_the_task() -> None:
    task = task_of(calling())
    with StageFeeder() as feeder, pytest.raises(MessageError, match="ZeroDivisionError"):
        feeder.feed(task, "in", 0, range(1), [(None, b"0", 0, ())])


@pytest.mark.parametrize("pipeline", [plain(), calling()], ids=["plain", "calling"])
def test_a_step_is_run(pipeline: Pipeline) -> None:
    steps: list[Any] = []
    with StageFeeder() as feeder:
        feeder.run(task_of(pipeline), lambda: steps.append(1))
    assert steps == [1]

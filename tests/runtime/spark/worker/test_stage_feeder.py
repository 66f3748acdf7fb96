"""A stage in a task of Spark, with and without asynchronous calls; no Spark is needed for that."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import task_of
from fluvial.dsl import Batch, MessageError, Pane, Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.runtime.spark.worker.stage_feeder import StageFeeder
from fluvial.runtime.spark.worker.worker_process import this_process

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


def test_calls_of_a_batch_are_in_flight_together() -> None:
    together = asyncio.Barrier(len(RECORDS))

    async def met(value: int) -> list[int]:
        async with asyncio.timeout(60):
            await together.wait()
        return [value]

    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    numbers.async_flat_map(met, id="call", max_in_flight=len(RECORDS)).send_to("out", value=int)
    task = task_of(pipeline)
    with StageFeeder() as feeder:
        feeder.feed(task, "in", 0, range(3), RECORDS)
        (outputs,) = dict(task.drain_outputs()).values()
    assert sorted(value or b"" for _, value, _, _ in outputs) == [b"1", b"2", b"3"]


def test_a_call_that_fails_fails_the_task() -> None:
    task = task_of(calling())
    with StageFeeder() as feeder, pytest.raises(MessageError, match="ZeroDivisionError"):
        feeder.feed(task, "in", 0, range(1), [(None, b"0", 0, ())])


def writing(rows: list[Mapping[str, str | None]], delay: timedelta, stuck: bool) -> Pipeline:
    """Writes rows in batches, and fails at the second message."""

    async def read(keys: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(keys, "")

    async def write(some: Mapping[str, str | None]) -> None:
        if stuck:
            await asyncio.sleep(0.05)
        rows.append(some)

    pipeline = Pipeline("p")
    words = pipeline.stream("in", key=str, value=str)
    batch = Batch(size=2, delay=delay)
    words.send_to(pipeline.remote_table("rows", read=read, write=write, batch=batch))
    words.map(lambda word: f"{1 // (len(word) - 3)}").send_to("out")
    return pipeline


@pytest.mark.parametrize(("delay", "stuck"), [(0.01, False), (0.0, True)])
def test_a_batch_of_rows_is_not_written_behind_the_end_of_its_task(delay: float, stuck: bool) -> None:
    """By then another worker may have written newer rows of the same keys."""
    rows: list[Mapping[str, str | None]] = []
    task = task_of(writing(rows, timedelta(seconds=delay), stuck))
    with StageFeeder() as feeder, pytest.raises(MessageError, match="ZeroDivisionError"):
        feeder.feed(task, "in", 0, range(2), [(b"k", b"green", 0, ()), (b"l", b"tea", 1, ())])
    this_process().run(asyncio.sleep(0.1))
    assert rows == []


@pytest.mark.parametrize("pipeline", [plain(), calling()], ids=["plain", "calling"])
def test_a_step_is_run(pipeline: Pipeline) -> None:
    steps: list[Any] = []
    with StageFeeder() as feeder:
        feeder.run(task_of(pipeline), lambda: steps.append(1))
    assert steps == [1]


@pytest.mark.parametrize("at_end", [False, True])
def test_a_window_emits_as_calls_end_and_all_is_there_once_it_is_fed(at_end: bool) -> None:
    running: list[int] = []

    async def noted(pane: Pane[str, int]) -> list[str]:
        running.append(task.pools["call"].outstanding)
        await asyncio.sleep(0)
        return [pane.key]

    pipeline = Pipeline("p")
    window = pipeline.stream("in", value=int, key=str).window(tumbling(timedelta(milliseconds=10)), count(), id="w")
    window.async_flat_map(noted, id="call", max_in_flight=2).send_to("out", value=str)
    task = task_of(pipeline)
    keys = [b"%02d" % number for number in range(50)]
    with StageFeeder() as feeder:
        later: list[Record] = [] if at_end else [(b"x", b"1", 10, ()), (b"y", b"1", 11, ())]
        records = [*((key, b"1", 5, ()) for key in keys), *later]
        feeder.feed(task, "in", 0, range(len(records)), records)
        if at_end:
            feeder.run(task, lambda: task.inputs.ends.end("in"))
        (outputs,) = dict(task.drain_outputs()).values()
    assert sorted(key for key, _, _, _ in outputs) == keys
    assert max(running) <= 4


@pytest.mark.parametrize("exclusive", [True, False])
def test_messages_of_a_batch_wait_for_what_has_fired_before_them(exclusive: bool) -> None:
    steps: list[str] = []

    async def noted(pane: Pane[str, int]) -> list[str]:
        await asyncio.sleep(0)
        steps.append(f"pane {pane.key}")
        return []

    def seen(value: int) -> int:
        steps.append(f"message {value}")
        return value

    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int, key=str)
    numbers.map(seen).send_to("seen", value=int)
    window = numbers.window(tumbling(timedelta(milliseconds=10)), count(), id="w", exclusive=exclusive)
    window.async_flat_map(noted, id="call").send_to("out", value=str)
    with StageFeeder() as feeder:
        feeder.feed(task_of(pipeline), "in", 0, range(3), [(b"a", b"%d" % time, time, ()) for time in (1, 11, 12)])
    last = ["pane a", "message 12"] if exclusive else ["message 12", "pane a"]
    assert steps == ["message 1", "message 11", *last]

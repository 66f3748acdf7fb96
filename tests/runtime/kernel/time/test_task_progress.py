"""How far a task is, as it is asked from outside."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import KeyedStream, Pipeline, count, tumbling
from fluvial.runtime.kernel import firing_pauses
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.bounds import END, START

SECOND = timedelta(seconds=1)


def counting(idle_after: timedelta | None = None, **options: Any) -> StageTask:
    pipeline = Pipeline("p")
    stream: KeyedStream[str, int] = pipeline.stream("in", key=str, value=int, idle_after=idle_after)
    stream.window(tumbling(timedelta(milliseconds=10)), count(), id="w").send_to("out")
    return task_of(pipeline, **options)


def test_a_watermark_follows_the_messages() -> None:
    task = counting()
    assert task.progress.watermark_of("w") == START
    feed(task, "in", (b"k", b"1", 25, ()))
    assert task.progress.watermark_of("w") == task.progress.reported_watermark_of("w") == 25


def test_the_end_of_input_is_no_watermark_that_messages_gave() -> None:
    task = counting()
    feed(task, "in", (b"k", b"1", 25, ()))
    task.inputs.ends.end("in")
    assert task.progress.watermark_of("w") == END
    assert task.progress.reported_watermark_of("w") == 25


def test_a_window_has_not_fired_while_its_firing_has_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing_pauses, "PIECE", 1)
    full = False
    task = counting(full=lambda: full)
    assert task.progress.fired_up_to("w") == START
    assert task.progress.fired_up_to("in") is None
    feed(task, "in", (b"k", b"1", 1, ()), (b"l", b"1", 2, ()))
    full = True
    feed(task, "in", (b"k", b"1", 25, ()))
    assert task.paused
    assert (task.progress.reported_watermark_of("w"), task.progress.fired_up_to("w")) == (25, 9)
    full = False
    task.go_on()
    assert task.progress.fired_up_to("w") == 25


def test_an_operator_ends_with_the_inputs_that_lead_to_it() -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.stream(name, key=str, value=int) for name in ("left", "right"))
    left.send_to("one")
    left.join(right, lambda a, b: a + b, id="j", within=SECOND).send_to("two")
    task = task_of(pipeline, catches_up=True)
    feed(task, "left", (b"k", b"1", 25, ()))
    task.inputs.ends.end("left")
    assert [task.progress.has_ended(id) for id in ("send_to-3", "send_to-5")] == [True, False]
    task.inputs.ends.end("right")
    assert task.progress.has_ended("send_to-5")
    assert task.progress.watermark_of("j") < END


def test_an_operator_is_not_idle_while_messages_come() -> None:
    task = counting(idle_after=SECOND)
    feed(task, "in", (b"k", b"1", 25, ()))
    assert not task.progress.is_idle("w")


def test_a_task_is_busy_while_a_call_is_in_flight() -> None:
    async def later(value: int) -> list[int]:
        await asyncio.sleep(0)
        return [value]

    async def work() -> list[bool]:
        task = task_of(pipeline)
        told = [task.progress.busy]
        feed(task, "in", (None, b"1", 0, ()))
        told.append(task.progress.busy)
        while task.progress.busy:
            await asyncio.sleep(0)
        return [*told, task.progress.busy]

    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).async_flat_map(later, id="call").send_to("out")
    assert asyncio.run(work()) == [False, True, False]

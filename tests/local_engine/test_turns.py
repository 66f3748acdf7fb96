"""No input of a task waits for ever: where another one uses up what the task may take at a time, the next has its
turn."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engines.targets import write
from fluvial.dsl import Collector, Envelope, Pipeline, StreamTask, TaskCoordinator
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver

A_LOT, FEW = 60, 4


def messages() -> dict[str, list[Any]]:
    sizes = {"a": A_LOT, "b": FEW}
    return {name: [[(None, f"{name}{at}".encode(), 0, ()) for at in range(size)]] for name, size in sizes.items()}


def test_an_input_is_not_kept_waiting_by_calls_of_another() -> None:
    begun = list[str]()

    async def call(value: str) -> list[str]:
        begun.append(value)
        await asyncio.sleep(1)
        return [value]

    pipeline = Pipeline("p")
    first = pipeline.stream("a", value=str)
    first.merge(pipeline.stream("b", value=str)).async_flat_map(call, id="call", max_in_flight=2).send_to("out")
    with PipelineDriver(pipeline) as driver:
        for name, (records,) in messages().items():
            driver.records.send(name, records)
        driver.advance(timedelta(seconds=A_LOT))
    # Four places, of which two run: the first are of `a`, and from then on both have their turn.
    assert all(f"b{at}" in begun[: 4 * FEW] for at in range(FEW))


class Committing(StreamTask[Any, str, str]):
    """Asks for a commit at each message."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        collector.send(envelope.value)
        coordinator.commit()


@pytest.mark.parametrize("most", [None, 10])
def test_an_input_is_not_kept_waiting_by_requests_of_another(most: int | None) -> None:
    seen = list[str]()

    def note(value: str) -> str:
        seen.append(value)
        return value

    pipeline = Pipeline("p")
    inputs = [pipeline.stream(name, value=str) for name in "ab"]
    pipeline.task(Committing, inputs, id="x").map(note).send_to("out", value=str)
    system = MemorySystem()
    write(system, messages())
    run(pipeline, system=system, settings=Settings(turn_messages=most), until="end")
    assert seen[: 2 * FEW] == [f"{name}{at}" for at in range(FEW) for name in "ab"]
    assert len(seen) == A_LOT + FEW

"""A stage's program: compiled once, shared by its tasks."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, program_of
from fluvial.dsl import KeyedStream, Pipeline, count, tumbling
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.state import MemoryStore

TEN = tumbling(timedelta(milliseconds=10))


async def call(value: int) -> list[int]:
    return [value]


def keyed(pipeline: Pipeline) -> KeyedStream[str, int]:
    return pipeline.stream("in", value=int, key=str)


@pytest.mark.parametrize(
    ("write", "asynchronous", "stateful"),
    [
        (lambda stream: stream.send_to("out"), False, False),
        (lambda stream: stream.async_flat_map(call, id="call").send_to("out"), True, False),
        (lambda stream: stream.window(TEN, count(), id="window").send_to("out"), False, True),
    ],
)
def test_a_program_knows_what_it_needs(
    write: Callable[[KeyedStream[str, int]], Any], asynchronous: bool, stateful: bool
) -> None:
    pipeline = Pipeline("p")
    write(keyed(pipeline))
    program = program_of(pipeline)
    assert (program.asynchronous, program.stateful) == (asynchronous, stateful)


def test_tasks_of_one_program_share_neither_state_nor_time_nor_outputs() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).window(TEN, count(), id="window").map(lambda pane: pane.value).send_to("out", value=int)
    program = program_of(pipeline)
    one, other = (StageTask(program, MemoryStore(), empty=True) for _ in range(2))
    feed(one, "in", (b"a", b"1", 0, ()), (b"a", b"1", 1, ()))
    feed(other, "in", (b"a", b"1", 2, ()))
    assert feed(one, "in", (b"a", b"1", 10, ())) == {"send_to-4": [(b"a", b"2", 9, ())]}
    assert dict(other.drain_outputs()) == {}
    assert (one.inputs.watermark(), other.inputs.watermark()) == (10, 2)

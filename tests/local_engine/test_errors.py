"""A run that cannot go on: each error names the user's line, the message, and what to do."""

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import MessageError, Pipeline, PlanError, SystemProblem, count, skip, tumbling
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem, MemorySystem

HOUR = timedelta(hours=1)


def windowed(pipeline: Pipeline) -> None:
    pipeline.stream("in", value=bytes, key=str).window(tumbling(HOUR), count(), id="w").send_to("out")


no_time: Any = print

CASES: list[tuple[Callable[[Pipeline], Any], int, str]] = [
    (lambda p: p.stream("in", value=bytes, timestamp=no_time).send_to("out"), 0, "timestamp must return an int"),
    (lambda p: p.stream("in", value=bytes).map(int).send_to("out"), 0, "map(int) failed"),
    (lambda p: p.stream("in", value=bytes).filter(lambda b: b[9]).send_to("out"), 0, "IndexError: index out of range"),
    (lambda p: p.stream("in", value=bytes, timestamp=lambda b: b[9]).send_to("out"), 0, "stream in failed"),
    (windowed, 1, "window w failed"),
    (windowed, 1, "key none: TypeError: a message without key"),
]
"""What writes a pipeline, on which line below its first, and the error of the message b"bad"."""


@pytest.mark.parametrize(("place", "below", "wrong"), CASES)
def test_a_message_that_fails_is_explained(place: Any, below: int, wrong: str) -> None:
    pipeline, memory = Pipeline("p"), MemorySystem()
    place(pipeline)
    write(memory, {"in": [[], [(None, b"bad", 7, ())]]})
    error = error_of(lambda: run(pipeline, system=memory, until="end"), MessageError)
    expected = "a message with a key" if place is windowed else "a function that takes every message"
    assert_explains(error, wrong, place, expected, "on_error=skip()", below)
    assert "the message at in, partition 1, offset 0, key none" in str(error)


def test_a_message_that_is_not_decoded_is_explained() -> None:
    pipeline, memory = Pipeline("p"), MemorySystem()
    place: Any = lambda: pipeline.stream("in", value=dict[str, int]).send_to("out")  # noqa: E731
    place()
    write(memory, {"in": [[(None, b"a,1", 7, ())]]})
    error = error_of(lambda: run(pipeline, system=memory, until="end"), MessageError)
    wrong = "stream in failed on the message at in, partition 0, offset 0, key none: DecodeError"
    assert_explains(error, wrong, place, "a value of type dict[str, int]", "--input-format csv")
    assert "on_error=skip()" in str(error)


def divided(number: int) -> float:
    return 1 / number


def test_an_error_in_a_function_names_the_line_that_raised() -> None:
    pipeline, memory = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=int).map(divided).send_to("out")
    write(memory, {"in": [[(b"k", b"0", 7, ())]]})
    error = error_of(lambda: run(pipeline, system=memory, until="end"), MessageError)
    assert f"{Path(__file__).name}:{divided.__code__.co_firstlineno + 1}" in str(error).splitlines()[0]
    assert "offset 0, key 'k': ZeroDivisionError" in str(error)


def test_a_task_of_a_call_that_exits_ends_the_run_and_does_not_look_done() -> None:
    async def look(number: int) -> list[int]:
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.sleep(60)
        return [number]

    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int).async_flat_map(look, id="look").send_to("out")
    system = MemorySystem()
    write(system, {"in": [[(None, b"1", 0, ())]]})
    with pytest.raises(MessageError, match=r"sys.exit\(0\) was called during the run of 'p'"):
        run(pipeline, system=system, until="end")


def test_a_stream_that_does_not_exist_is_named() -> None:
    pipeline, memory = Pipeline("p"), MemorySystem()
    write(memory, {"other": [[]]})
    place: Any = lambda: pipeline.stream("in", value=int).send_to("out")  # noqa: E731
    place()
    error = error_of(lambda: run(pipeline, system=memory, until="end"), PlanError)
    assert_explains(
        error, "'in' does not exist in memory:; it has other", place, "a stream that exists", "fluvial produce in"
    )


def counted() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).window(tumbling(HOUR), count(), id="w").send_to("out")
    return pipeline


def test_state_that_is_gone_is_reported(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"in": [[(b"k", b"x", 0, ())]]})
    run(counted(), system=system, until="end")
    rmtree(tmp_path / "state")
    error = error_of(lambda: run(counted(), system=system, until="end"), SystemProblem)
    assert_explains(
        error, "the state of task in/0 is gone", counted, "the store that was written", "--state w", below=1
    )

"""Steps of work run in this thread or in others, with their results and errors."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from fluvial.runtime.local.background_work import Steps, run_steps, run_steps_in_threads

Run = Callable[[Steps[list[str]]], list[str]]


def in_threads(work: Steps[list[str]]) -> list[str]:
    return asyncio.run(asyncio.wait_for(run_steps_in_threads(work, lambda: True), 10))


def beside_no_calls(work: Steps[list[str]]) -> list[str]:
    return asyncio.run(run_steps_in_threads(work, lambda: False))


def name() -> str:
    return threading.current_thread().name


def names() -> Steps[list[str]]:
    first = yield name
    assert (yield None) is None
    return [first, (yield name)]


@pytest.mark.parametrize(
    ("run", "thread"), [(run_steps, "MainThread"), (beside_no_calls, "MainThread"), (in_threads, "fluvial-step")]
)
def test_each_step_gives_its_result_to_the_work(run: Run, thread: str) -> None:
    assert run(names()) == [thread, thread]


@pytest.mark.parametrize("run", [run_steps, beside_no_calls, in_threads])
def test_the_error_of_a_step_ends_the_work(run: Run) -> None:
    def fails() -> None:
        raise ValueError("no broker")

    def work() -> Steps[list[str]]:
        yield fails
        return []

    with pytest.raises(ValueError, match="no broker"):
        run(work())

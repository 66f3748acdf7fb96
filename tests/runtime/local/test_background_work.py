"""Work of a container whose steps may wait: in threads while calls are in flight, else at once."""

import asyncio
import threading

import pytest

from fluvial.runtime.local.background_work import Steps, run_steps, run_steps_in_threads


def thread_names() -> Steps[list[str]]:
    first = yield lambda: threading.current_thread().name
    yield None
    second = yield lambda: threading.current_thread().name
    return [first, second]


def failing() -> Steps[None]:
    def refuse() -> None:
        raise OSError("the broker is away")

    yield refuse


def test_steps_run_in_this_thread_unless_calls_are_in_flight() -> None:
    here = threading.current_thread().name
    assert run_steps(thread_names()) == [here, here]
    assert asyncio.run(run_steps_in_threads(thread_names(), lambda: False)) == [here, here]


def test_steps_run_in_threads_while_calls_are_in_flight() -> None:
    assert asyncio.run(run_steps_in_threads(thread_names(), lambda: True)) == ["fluvial-step", "fluvial-step"]


@pytest.mark.parametrize("busy", [False, True])
def test_an_error_of_a_step_reaches_who_waits_for_it(busy: bool) -> None:
    with pytest.raises(OSError, match="the broker is away"):
        asyncio.run(run_steps_in_threads(failing(), lambda: busy))

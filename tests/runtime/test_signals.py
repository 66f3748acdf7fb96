"""Signals as a wish to stop."""

import os
import signal
import threading

import pytest

from fluvial.runtime.signals import Stopped, StopRequest, stop_signals


def ask(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_has_begun_looks_at_the_first_signal_and_is_stopped_by_the_second(number: int) -> None:
    with stop_signals() as stop:
        stop.begin()
        assert not stop()
        ask(number)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            ask(number)


def test_a_run_that_has_not_begun_is_stopped_by_the_first() -> None:
    with stop_signals(), pytest.raises(Stopped):
        ask()
    with stop_signals(), pytest.raises(KeyboardInterrupt) as interrupted:
        ask(signal.SIGINT)
    assert not isinstance(interrupted.value, Stopped)


def test_what_handled_signals_before_does_so_again() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop_signals(), stop_signals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert "fluvial-signals" not in [thread.name for thread in threading.enumerate()]


def test_a_thread_hears_of_no_signal() -> None:
    requests: list[StopRequest] = []

    def run() -> None:
        with stop_signals() as stop:
            requests.append(stop)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not requests[0]()

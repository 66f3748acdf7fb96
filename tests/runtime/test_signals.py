"""Signals as a wish to stop."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fluvial.runtime import signals
from fluvial.runtime.signals import Stopped, StopRequest, stop_signals
from fluvial.runtime.watchdog import KILLED


def ask(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_has_begun_looks_at_the_first_signal_and_is_stopped_by_the_second(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes within half a second is the same signal: `timeout` sends it to a process and to its group."""
    with stop_signals() as stop:
        stop.begin()
        assert not stop()
        ask(number)
        assert stop()
        monkeypatch.setattr(signals, "REPEATED_SECONDS", 1000)
        ask(number)
        monkeypatch.setattr(signals, "REPEATED_SECONDS", 0)
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
    assert not list(watchdogs_of(os.getpid()))


def test_a_thread_hears_of_no_signal() -> None:
    requests: list[StopRequest] = []

    def run() -> None:
        with stop_signals() as stop:
            requests.append(stop)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not requests[0]()


WATCHED = """
import os, signal, sys
from fluvial.runtime import signals

signal.signal(signal.SIGUSR1, lambda *_: None)
signals.KILL_SECONDS = float(sys.argv[1])
with signals.stop_signals() as stop:
    stop.begin()
    print("here", flush=True)
    while True:
        sys.stdin.buffer.raw.read(1)
"""


def watchdogs_of(process: int) -> Iterator[int]:
    """The watchdogs that a process has started, and has not ended."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = folder.joinpath("cmdline").read_text().split("\0")
        except OSError:
            continue
        if len(words) > 4 and words[2].endswith("watchdog.py") and words[4] == str(process):
            yield int(folder.name)


@pytest.fixture
def watched() -> "Iterator[subprocess.Popen[str]]":
    """A process that hears of signals, and does not stop for them within a second."""
    words = [sys.executable, "-c", WATCHED, "0.5"]
    with subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def test_a_watchdog_kills_a_process_that_does_not_stop(watched: "subprocess.Popen[str]") -> None:
    watched.send_signal(signal.SIGUSR1)  # which is none of its business
    watched.send_signal(signal.SIGTERM)
    assert watched.wait() == -signal.SIGKILL
    assert watched.stderr is not None
    assert watched.stderr.read() == KILLED.decode()  # and it has ended, for nobody else can write there


def test_a_watchdog_ends_with_its_process(watched: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not (dogs := list(watchdogs_of(watched.pid))):  # a process has no command line yet just after it began
        assert time.monotonic() < deadline, "there is no watchdog"
    (dog,) = dogs
    os.kill(dog, signal.SIGTERM)  # as those do that stop all processes of a service
    watched.kill()
    assert watched.stderr is not None
    assert watched.stderr.read() == ""  # nobody can write there any more

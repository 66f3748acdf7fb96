"""SIGINT and SIGTERM request a stop."""

import asyncio
import multiprocessing
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engines.targets import contents, write
from fluvial.dsl import Pipeline
from fluvial.runtime import run
from fluvial.runtime.containers.supervisor import Supervisor
from fluvial.runtime.process import signals, stop_request
from fluvial.runtime.process.signals import later_by, stop_signals, unwinding
from fluvial.runtime.process.stop_request import Stopped, StopRequest
from fluvial.runtime.process.watchdog import KILLED, LIVES_ON, _is_asked_to_stop
from fluvial.runtime.systems import MemorySystem
from kafka.container_runs import PATIENCE


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
        monkeypatch.setattr(stop_request, "REPEATED_SECONDS", 1000)
        ask(number)
        monkeypatch.setattr(stop_request, "REPEATED_SECONDS", 0)
        with pytest.raises(KeyboardInterrupt):
            ask(number)


def test_a_run_that_has_not_begun_is_stopped_by_the_first() -> None:
    with stop_signals(), pytest.raises(Stopped):
        ask()
    with stop_signals(), pytest.raises(KeyboardInterrupt) as interrupted:
        ask(signal.SIGINT)
    assert not isinstance(interrupted.value, Stopped)


def test_a_run_is_interrupted_by_another_thread_until_it_ends() -> None:
    def wait_for_interruption() -> None:
        with stop_signals() as stop:
            stop.begin()
            threading.Thread(target=stop.interrupt).start()
            time.sleep(PATIENCE)

    with pytest.raises(Stopped):
        wait_for_interruption()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop_signals() as stop:
        stop.begin()
        stop.end()
        ask()  # which comes too late, as that of the thread does
    stop.interrupt()  # this process would be killed by it
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


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


def in_child(check: Callable[[], bool], number: int | None = None) -> int:
    """The exit code of a forked child: 0 where what it checks is so, and below 0 the signal that ended it."""
    child = os.fork()
    if not child:
        try:
            if number is None:
                os._exit(0 if check() else 1)
            time.sleep(PATIENCE)
        finally:
            os._exit(2)
    if number is not None:
        os.kill(child, number)  # at once, while the child may still be at its first instructions
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def sockets() -> int:
    """How many sockets this process has open."""
    return sum(stat.S_ISSOCK(os.fstat(number).st_mode) for number in range(3, 256) if is_open(number))


@pytest.mark.slow
def test_a_forked_child_handles_signals_as_if_there_were_no_run() -> None:
    handlers, open_before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)], sockets()

    def as_before() -> bool:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        now = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
        return now == handlers and signal.set_wakeup_fd(-1) == -1 and sockets() <= open_before and not mask

    with unwinding(), stop_signals(), stop_signals() as stop:
        stop.begin()
        assert in_child(as_before) == 0
        assert in_child(lambda: in_child(as_before) == 0) == 0
        for _ in range(20):
            assert in_child(as_before, signal.SIGTERM) == -signal.SIGTERM
        assert not stop()
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_function_that_ends_a_process_of_its_own_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "COMMIT_SECONDS", 0.0)
    fork = multiprocessing.get_context("fork")

    def end_one(word: str) -> str:
        process = fork.Process(target=time.sleep, args=(PATIENCE,), daemon=True)
        process.start()
        process.terminate()
        process.join()
        return f"{word} {process.exitcode}"

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).map(end_one).send_to("out", value=str)
    system = MemorySystem()
    write(system, {"in": [[(None, word, 0, ()) for word in (b"a", b"b", b"c")]]})
    assert run(pipeline, system=system, until="end").read == {"in": 3}
    assert [record[1] for record in contents(system, "out")] == [b"a -15", b"b -15", b"c -15"]


def test_a_child_that_is_forked_beside_a_supervisor_is_none_of_its_business() -> None:
    async def fork() -> int:
        supervisor = Supervisor(Pipeline("p"), 0, lambda _: pytest.fail("none is started"), 0, None, print)
        with supervisor._signals():
            code = in_child(lambda: True, signal.SIGTERM)
            await asyncio.sleep(0.01)
            return code if not supervisor._stop.is_set() else 0

    assert asyncio.run(fork()) == -signal.SIGTERM


WATCHED = """
import os, resource, signal, sys
from fluvial.runtime.process import signals, stop_request

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(int(sys.argv[2]))]
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
def watched(request: pytest.FixtureRequest) -> "Iterator[subprocess.Popen[str]]":
    """A process that hears of signals, and does not stop for them within a second. It has as many files open as the
    parameter says."""
    words = [sys.executable, "-c", WATCHED, "0.5", str(getattr(request, "param", 0))]
    with subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("watched", [0, 1100], indirect=True, ids=["few files", "many files"])
def test_a_watchdog_kills_a_process_that_does_not_stop(watched: "subprocess.Popen[str]") -> None:
    watched.send_signal(signal.SIGUSR1)  # which is none of its business
    watched.send_signal(signal.SIGTERM)
    assert watched.wait() == -signal.SIGKILL
    assert watched.stderr is not None
    assert watched.stderr.read() == KILLED.decode()  # and it has ended, for nobody else can write there


class Waits(threading.Event):
    """The end of a run, which never comes; notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return len(self.seconds) == 2


def test_a_run_whose_calls_may_take_longer_is_interrupted_later() -> None:
    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.send(bytes([signal.SIGTERM]))
        request, over = StopRequest(), Waits()
        request.end()  # so that nothing is interrupted
        signals._watch(
            request, receiver, over, signals._WatchdogKeeper(receiver, 27.0), later_by(timedelta(seconds=30))
        )
    assert over.seconds == [signals.COMMIT_SECONDS + 27.0, signals.EXIT_SECONDS - signals.COMMIT_SECONDS]


def test_a_watchdog_of_such_a_run_waits_longer() -> None:
    deadline = time.monotonic() + PATIENCE
    with stop_signals(27.0):
        while not (dogs := list(watchdogs_of(os.getpid()))):
            assert time.monotonic() < deadline
        words = Path(f"/proc/{dogs[0]}/cmdline").read_text().split("\0")
    assert float(words[5]) == signals.KILL_SECONDS + 27.0


def test_a_watchdog_ends_with_its_process(watched: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not (dogs := list(watchdogs_of(watched.pid))):  # a process has no command line yet just after it began
        assert time.monotonic() < deadline, "there is no watchdog"
    (dog,) = dogs
    os.kill(dog, signal.SIGTERM)  # as those do that stop all processes of a service
    watched.kill()
    assert watched.stderr is not None
    assert watched.stderr.read() == ""  # nobody can write there any more


class Outrun(socket.socket):
    """A socket from which the process reads the first number just before the watchdog does; SIGTERM comes then."""

    sender: socket.socket | None = None

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if self.sender is not None:
            super().recv(size)
            found, self.sender = self.sender, None
            with found:
                try:
                    return super().recv(size, flags)
                finally:
                    found.send(bytes([signal.SIGTERM]))
        return super().recv(size, flags)


def test_a_watchdog_outlives_a_process_that_is_quicker_to_read_a_signal() -> None:
    receiver, sender = socket.socketpair()
    with Outrun(fileno=receiver.detach()) as outrun:
        outrun.setblocking(False)  # as the process does, by the time it waits at most
        outrun.sender = sender
        sender.send(bytes([signal.SIGINT]))
        assert _is_asked_to_stop(outrun, os.getppid())


def test_a_watchdog_that_was_killed_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "WATCHDOG_SECONDS", 0.01)
    deadline = time.monotonic() + PATIENCE
    with stop_signals() as stop:
        stop.begin()
        while not (first := list(watchdogs_of(os.getpid()))):
            assert time.monotonic() < deadline
        os.kill(first[0], signal.SIGKILL)
        while not (second := list(watchdogs_of(os.getpid()))) or second == first or zombie(first[0]):
            assert time.monotonic() < deadline, "nobody follows the watchdog, or it was left a zombie"
        assert len(second) == 1
    assert not list(watchdogs_of(os.getpid()))


def zombie(process: int) -> bool:
    """Whether something is left of a process that was killed."""
    return Path(f"/proc/{process}").exists()


IMMORTAL = """
import sys
from fluvial.runtime.process import watchdog

watchdog.DYING_SECONDS = 0.1
watchdog.os.kill = lambda process, number: None  # as the kernel treats the first process of a namespace
watchdog.main(sys.argv[1:])
"""


def test_a_watchdog_tells_of_a_process_that_cannot_be_killed() -> None:
    hearing, telling = socket.socketpair()
    with hearing, telling:
        telling.send(bytes([signal.SIGTERM]))
        words = [sys.executable, "-c", IMMORTAL, str(hearing.fileno()), str(os.getpid()), "0"]
        said = subprocess.run(
            words, stderr=subprocess.PIPE, pass_fds=(hearing.fileno(),), timeout=PATIENCE, check=True
        ).stderr
    assert said == LIVES_ON


READING = """
import signal, sys, threading
from fluvial.runtime.process.signals import unwinding

def signal_beside_the_reader():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with unwinding():
    threading.Timer(0.3, signal_beside_the_reader).start()
    try:
        sys.stdin.readline()
    finally:
        print("closed", flush=True)
"""
"""The main thread's read is not interrupted, as when a signal comes just before it."""


@pytest.mark.slow
def test_a_read_that_a_signal_did_not_interrupt_is_left() -> None:
    with subprocess.Popen([sys.executable, "-c", READING], stdin=-1, stdout=-1, text=True) as process:
        assert process.wait(30) == 143
        assert process.stdout is not None
        assert process.stdout.read() == "closed\n"


def test_outside_of_the_main_thread_no_signal_is_handled() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with unwinding():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]

"""SIGINT and SIGTERM: a run commits and stops within a bounded time, even inside a call that does not return."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Self

from . import watchdog
from .forks import STOPPING, apart_from_children
from .resource_limits import remedy_for
from .run_control import RUN_CONTROL
from .standard_streams import say_last
from .stop_request import StopRequest

# These four pass one after another, within the 10 s that users are promised for SIGTERM.
DRAIN_SECONDS = 3.0
"""Time after a request to stop in which asynchronous calls in flight may end, as long as it is not set. The others come
later by as much as it is longer: see `later_by`."""
COMMIT_SECONDS = 5.0
"""Time after SIGTERM in which a run may commit; then its main thread is interrupted."""
EXIT_SECONDS = 7.5
"""Time after SIGTERM in which a process may close its resources; then it exits."""
KILL_SECONDS = 8.0
"""Time after SIGTERM in which a process may end by itself; then its watchdog kills it."""
WATCHDOG_SECONDS = 10.0
"""Time between two checks that the watchdog is alive."""
AGAIN_SECONDS = 0.1
"""Time between two attempts to interrupt a main thread that has not handled SIGTERM."""
ENDED = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM has ended."""


def later_by(stop_timeout: timedelta) -> float:
    """By how many seconds a stop comes later where calls in flight may take so long.

    >>> later_by(timedelta(seconds=30)), later_by(timedelta(0))
    (27.0, 0.0)
    """
    return max(0.0, stop_timeout.total_seconds() - DRAIN_SECONDS)


@contextmanager
def stop_signals(later: float = 0.0) -> Iterator[StopRequest]:
    """Let SIGINT and SIGTERM request a stop after a commit. A second one, more than `REPEATED_SECONDS` later, stops at
    once.

    `COMMIT_SECONDS` after SIGTERM, or `later` by some seconds, the main thread is interrupted with `Stopped`, and after
    `EXIT_SECONDS` the process ends with exit code 143. A thread does both, since the main thread may be in a call that
    does not return. If no thread of Python can run, another process kills this one after `KILL_SECONDS`. A child that
    is forked meanwhile has the signal handlers from before. Outside of the main thread no signal is handled; a run with
    a `RunControl` is stopped by that.
    """
    control = RUN_CONTROL.get()
    request = StopRequest() if control is None else control.stop
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    with _watched(request, later):
        before = {number: signal.signal(number, request.handle) for number in STOPPING}
        try:
            yield request
        finally:
            try:
                request.end()  # else a late interruption would reach the handlers from before
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)


@contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM end the process with exit code 143 after its context managers have exited and cleaned up; by default
    it ends the process at once. A second one changes nothing. Outside of the main thread nothing is handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    exit_once = _ExitOnce()
    waker = threading.Thread(target=exit_once.wake, args=(receiver,), name="fluvial-unwinding", daemon=True)
    with apart_from_children(receiver, sender), receiver, sender:
        before, before_fd = signal.signal(signal.SIGTERM, exit_once.handle), signal.set_wakeup_fd(sender.fileno())
        waker.start()
        try:
            yield
        finally:
            exit_once.raised.set()
            signal.set_wakeup_fd(before_fd)
            sender.close()
            waker.join()  # what it has sent has arrived, and is not for the handler from before
            signal.signal(signal.SIGTERM, before)


class _ExitOnce:
    """How SIGTERM unwinds the main thread: its first call raises SystemExit."""

    def __init__(self) -> None:
        self.raised = threading.Event()

    def handle(self, _: int, __: FrameType | None) -> None:
        """Handle SIGTERM: raise SystemExit, unless that was done."""
        if not self.raised.is_set():
            self.raised.set()
            raise SystemExit(ENDED)

    def wake(self, receiver: socket.socket) -> None:
        """Interrupt the main thread until it has handled SIGTERM. One that came just before a call that waits, such as
        a read of standard input, would else be handled when that call returns."""
        main = threading.main_thread().ident
        assert main is not None
        while numbers := receiver.recv(1 << 10):
            while signal.SIGTERM in numbers and not self.raised.wait(AGAIN_SECONDS):
                signal.pthread_kill(main, signal.SIGTERM)


@contextmanager
def _watched(request: StopRequest, later: float) -> Iterator[None]:
    """Tell a thread and a watchdog process of signals at once, whatever the main thread does."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    over = threading.Event()
    try:
        with apart_from_children(receiver, sender), _WatchdogKeeper(receiver, later) as keeper:
            before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
            arguments = (request, receiver, over, keeper, later)
            watcher = threading.Thread(target=_watch, args=arguments, name="fluvial-signals", daemon=True)
            watcher.start()
            try:
                yield
            finally:
                signal.set_wakeup_fd(before)
                over.set()
                sender.close()
                watcher.join()
    finally:
        sender.close()
        receiver.close()


class _WatchdogKeeper:
    """Keeps a watchdog process alive. Without room for a process there is none; one that was killed is replaced."""

    def __init__(self, receiver: socket.socket, later: float) -> None:
        self._receiver, self._later = receiver, later
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            # Not asked to end: it ignores signals that are for the run, and has nothing to clean up.
            self._process.kill()
            self._process.wait()

    def renew(self) -> None:
        """Start a watchdog if there is none. Raises OSError if the machine has run out of something."""
        if self._process is not None and self._process.poll() is None:
            return
        descriptor, due = self._receiver.fileno(), KILL_SECONDS + self._later
        words = [sys.executable, "-IS", watchdog.__file__, str(descriptor), str(os.getpid()), str(due)]
        try:
            # In a session of its own: a signal to all processes of a terminal is for this process, not for the
            # watchdog.
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        except OSError as error:
            if remedy_for(error) is not None:
                raise
            self._process = None


def _watch(
    request: StopRequest, receiver: socket.socket, over: threading.Event, keeper: _WatchdogKeeper, later: float
) -> None:
    # SIGTERM stays in the socket, since the watchdog reads it too.
    while signal.SIGTERM not in (numbers := _peek(receiver, keeper)):
        if not numbers:
            return
        receiver.recv(len(numbers))
    if over.wait(COMMIT_SECONDS + later):
        return
    # By a signal to the main thread, since nothing else interrupts a call of C there that waits.
    request.interrupt()
    if not over.wait(EXIT_SECONDS - COMMIT_SECONDS):
        say_last("The run was asked to stop and did not: the process is ended. It goes on from its last commit.")
        os._exit(ENDED)


def _peek(receiver: socket.socket, keeper: _WatchdogKeeper) -> bytes:
    """Wait for signals; returns their numbers, none at the end. While it waits it keeps a watchdog alive."""
    receiver.settimeout(WATCHDOG_SECONDS)
    while True:
        try:
            return receiver.recv(1 << 16, socket.MSG_PEEK)
        except TimeoutError:
            with suppress(OSError):  # no room for a process now: the next check may find some
                keeper.renew()

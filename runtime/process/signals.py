"""Signals as a wish to stop, which is heeded in time wherever a run is."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

from . import watchdog
from .forks import STOPPING, apart_from_children
from .resource_limits import remedy_for
from .standard_streams import say_last

REPEATED_SECONDS = 0.5
"""Time after a signal in which another is taken for the same: `timeout` sends one to its child and one to the group."""
DRAIN_SECONDS = 3.0
"""Time after a wish to stop in which calls that are under way may end."""
COMMIT_SECONDS = 5.0
"""Time after SIGTERM in which a run may commit; then it is stopped where it is."""
EXIT_SECONDS = 7.5
"""Time after SIGTERM in which a process gives back what it holds; then it ends."""
KILL_SECONDS = 8.0
"""Time after SIGTERM in which a process can end itself; then its watchdog kills it."""
GUARD_SECONDS = 10.0
"""Time between two looks whether the watchdog lives."""
ENDED = 128 + signal.SIGTERM
"""The exit code of a process that had to be ended so."""


class Stopped(KeyboardInterrupt):
    """A run was asked to stop, and stops where it is: without a last commit."""


class StopRequest:
    """Whether a run is to stop. Call it to know; a run that does so calls `begin` first.

    Until then, SIGTERM raises `Stopped` in the main thread at once, and SIGINT KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.begun = False
        self._overdue = False
        self._ended = False
        self._interrupting = threading.Lock()
        self._asked_at: float | None = None

    def __call__(self) -> bool:
        return self._asked_at is not None

    def begin(self) -> None:
        """From now on, one signal is only a wish, which the run looks at."""
        self.begun = True

    def hear(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        if self._ended:
            return
        if self._overdue or (number == signal.SIGTERM and not self.begun):
            raise Stopped
        now = time.monotonic()
        if not self.begun or (self._asked_at is not None and now - self._asked_at > REPEATED_SECONDS):
            raise KeyboardInterrupt
        self._asked_at = self._asked_at or now

    def interrupt(self) -> None:
        """The time to commit is over: raise `Stopped` in the main thread, unless it has ended by itself. To be called
        by another thread."""
        main = threading.main_thread().ident
        assert main is not None
        with self._interrupting:
            if not self._ended:
                self._overdue = True
                signal.pthread_kill(main, signal.SIGTERM)

    def end(self) -> None:
        """From now on no signal does anything here, and none comes from `interrupt`."""
        self._ended = True
        with self._interrupting:  # what another thread is sending has come
            pass


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Take SIGINT and SIGTERM as a wish to stop after a commit; a second one, more than
    `REPEATED_SECONDS` later, stops at once.

    `COMMIT_SECONDS` after SIGTERM the main thread is interrupted with `Stopped`, and after `EXIT_SECONDS` the process
    ends with exit code 143. A thread sees to that, for the main thread may be in a call that does not return. Where no
    thread of Python's runs any more, another process kills this one after `KILL_SECONDS`.
    A child that is forked meanwhile handles signals as this process did before.
    Outside of the main thread signals cannot be heard.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    with _watched(request):
        before = {number: signal.signal(number, request.hear) for number in STOPPING}
        try:
            yield request
        finally:
            try:
                request.end()  # or an interruption that comes late would meet the handlers from before
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)


@contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM end the process with exit code 143 after its contexts have been left, which clear away what they have
    made. Without that it ends where it is. Outside of the main thread signals cannot be heard."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with apart_from_children():
        before = signal.signal(signal.SIGTERM, _exit)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


def _exit(_: int, __: FrameType | None) -> None:
    raise SystemExit(ENDED)


@contextmanager
def _watched(request: StopRequest) -> Iterator[None]:
    """Let a thread and a process hear of signals as they come, whatever the main thread does."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    over = threading.Event()
    try:
        with apart_from_children(receiver, sender), _Guard(receiver) as guard:
            before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
            arguments = (request, receiver, over, guard)
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


class _Guard:
    """A watchdog, as far as the machine has room for one more process, and another one where it was killed."""

    def __init__(self, receiver: socket.socket) -> None:
        self._receiver = receiver
        self._dog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        if self._dog is not None:
            self._dog.kill()
            self._dog.wait()

    def renew(self) -> None:
        """Start a watchdog if there is none. Raises OSError where the machine has no room for one."""
        if self._dog is not None and self._dog.poll() is None:
            return
        descriptor = self._receiver.fileno()
        words = [sys.executable, "-IS", watchdog.__file__, str(descriptor), str(os.getpid()), str(KILL_SECONDS)]
        try:
            # In a session of its own, for what is meant for all processes of a terminal is for this one alone.
            self._dog = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        except OSError as error:
            if remedy_for(error) is not None:
                raise
            self._dog = None


def _watch(request: StopRequest, receiver: socket.socket, over: threading.Event, guard: _Guard) -> None:
    # What is heard of SIGTERM is left there, for the watchdog.
    while signal.SIGTERM not in (numbers := _heard(receiver, guard)):
        if not numbers:
            return
        receiver.recv(len(numbers))
    if over.wait(COMMIT_SECONDS):
        return
    request.interrupt()
    if not over.wait(EXIT_SECONDS - COMMIT_SECONDS):
        say_last("The run was asked to stop and did not: the process is ended. It goes on from its last commit.")
        os._exit(ENDED)


def _heard(receiver: socket.socket, guard: _Guard) -> bytes:
    """The numbers of signals that have come, none at the end. Meanwhile there is a watchdog."""
    receiver.settimeout(GUARD_SECONDS)
    while True:
        try:
            return receiver.recv(1 << 16, socket.MSG_PEEK)
        except TimeoutError:
            with suppress(OSError):  # no room for a process now: the next look may find some
                guard.renew()

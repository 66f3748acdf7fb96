"""Signals as a wish to stop, which is heeded in time wherever a run is."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from . import watchdog
from .exhausted import remedy_for
from .forks import STOPPING, apart_from_children
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
        self.overdue = False
        self._asked_at: float | None = None

    def __call__(self) -> bool:
        return self._asked_at is not None

    def begin(self) -> None:
        """From now on, one signal is only a wish, which the run looks at."""
        self.begun = True

    def hear(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        if self.overdue or (number == signal.SIGTERM and not self.begun):
            raise Stopped
        now = time.monotonic()
        if not self.begun or (self._asked_at is not None and now - self._asked_at > REPEATED_SECONDS):
            raise KeyboardInterrupt
        self._asked_at = self._asked_at or now


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
    hearing, telling = socket.socketpair()
    telling.setblocking(False)
    over = threading.Event()
    arguments = (request, hearing, over)
    watcher = threading.Thread(target=_watch, args=arguments, name="fluvial-signals", daemon=True)
    try:
        with apart_from_children(hearing, telling), _guarded(hearing):
            before = signal.set_wakeup_fd(telling.fileno(), warn_on_full_buffer=False)
            watcher.start()
            try:
                yield
            finally:
                signal.set_wakeup_fd(before)
                over.set()
                telling.close()
                watcher.join()
    finally:
        telling.close()
        hearing.close()


@contextmanager
def _guarded(hearing: socket.socket) -> Iterator[None]:
    """Have a watchdog meanwhile, as far as the machine has room for one more process."""
    words = [sys.executable, "-IS", watchdog.__file__, str(hearing.fileno()), str(os.getpid()), str(KILL_SECONDS)]
    try:
        # In a session of its own, for what is meant for all processes of a terminal is for this one alone.
        dog = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(hearing.fileno(),),
            start_new_session=True,
        )
    except OSError as error:
        if remedy_for(error) is not None:
            raise
        yield
        return
    with dog:
        try:
            yield
        finally:
            dog.kill()


def _watch(request: StopRequest, hearing: socket.socket, over: threading.Event) -> None:
    # What is heard of SIGTERM is left there, for the watchdog.
    while signal.SIGTERM not in (numbers := hearing.recv(1 << 16, socket.MSG_PEEK)):
        if not numbers:
            return
        hearing.recv(len(numbers))
    if over.wait(COMMIT_SECONDS):
        return
    request.overdue = True
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)
    if not over.wait(EXIT_SECONDS - COMMIT_SECONDS):
        say_last("The run was asked to stop and did not: the process is ended. It goes on from its last commit.")
        os._exit(ENDED)

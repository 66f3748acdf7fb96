"""The request to stop a run, by a signal or by another thread."""

import signal
import threading
import time
from types import FrameType

REPEATED_SECONDS = 0.5
"""A second signal within this time counts as the same: `timeout` sends one to its child and one to the group."""


class Stopped(KeyboardInterrupt):
    """A run was asked to stop, and stops at once, without a last commit."""


class StopRequest:
    """Whether a run was asked to stop: call it to find out. A run that polls it calls `begin` first.

    Before `begin`, SIGTERM raises `Stopped` in the main thread at once, and SIGINT raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.begun = False
        self._overdue = False
        self._ended = False
        self._interrupting = threading.Lock()
        self._asked_at: float | None = None

    def __call__(self) -> bool:
        """Whether a signal has requested a stop."""
        return self._asked_at is not None

    def request(self) -> None:
        """Request a stop, as the first signal does. Another thread may call this."""
        self._asked_at = self._asked_at or time.monotonic()

    def begin(self) -> None:
        """From now on the first signal only requests a stop; the run polls it."""
        self.begun = True

    def handle(self, number: int, _: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM: request a stop, or raise `Stopped` or KeyboardInterrupt where the class says so."""
        if self._ended:
            return
        if self._overdue or (number == signal.SIGTERM and not self.begun):
            raise Stopped
        now = time.monotonic()
        if not self.begun or (self._asked_at is not None and now - self._asked_at > REPEATED_SECONDS):
            raise KeyboardInterrupt
        self._asked_at = self._asked_at or now

    def interrupt(self) -> None:
        """Raise `Stopped` in the main thread, unless the run has ended, since the time to commit is over. Another
        thread calls this."""
        main = threading.main_thread().ident
        assert main is not None
        with self._interrupting:
            if not self._ended:
                self._overdue = True
                signal.pthread_kill(main, signal.SIGTERM)

    def end(self) -> None:
        """From now on signals have no effect here, and `interrupt` sends none."""
        self._ended = True
        with self._interrupting:  # a signal that another thread is sending has arrived
            pass

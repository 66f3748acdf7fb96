"""SIGTERM before a run and behind it: the process says so and ends at once, whatever its main thread does."""

import os
import signal
import socket
import threading
from contextlib import ExitStack
from types import FrameType

from .forks import apart_from_children
from .standard_streams import say_last

SENTENCE = (
    "The command was asked to stop while no run was under way: the process is ended. "
    "The next run goes on from the last commit."
)

_held = ExitStack()


class EarlyStop:
    """How SIGTERM ends the process: with exit code `code`."""

    def __init__(self, code: int) -> None:
        self.code = code
        self._ending = threading.Lock()

    def handle(self, _: int, __: FrameType | None) -> None:
        """Handle SIGTERM: say so, and end the process at once. Only the first call does."""
        # Never given back: a second signal, in whichever thread, finds the first one at work and does nothing.
        if self._ending.acquire(blocking=False):
            say_last(SENTENCE)
            os._exit(self.code)

    def watch(self, receiver: socket.socket) -> None:
        """Handle SIGTERM in this thread: the main thread may be in a call of C that does not return."""
        while numbers := receiver.recv(1 << 10):
            # Whoever has set another handler since then handles the signal.
            if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) == self.handle:
                self.handle(signal.SIGTERM, None)


def end_at_sigterm(code: int) -> EarlyStop:
    """From now on let SIGTERM end the process with this exit code and a sentence on standard error, wherever no other
    handler is set.

    By default it would end the process without a word, and would not end the first process of a container image. This
    holds for the rest of the process; children that are forked have the handler from before.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    _held.enter_context(apart_from_children(receiver, sender))
    stop = EarlyStop(code)
    signal.signal(signal.SIGTERM, stop.handle)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=stop.watch, args=(receiver,), name="fluvial-early-stop", daemon=True).start()
    return stop

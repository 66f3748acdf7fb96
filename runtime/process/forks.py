"""Signals of a run are its own: a child that a user's function forks handles them as if there were no run."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

STOPPING = (signal.SIGINT, signal.SIGTERM)

_Handler = Callable[[int, FrameType | None], object] | int | None


class _Before(NamedTuple):
    """How a process handled signals before a run, and the sockets on which the run hears of them."""

    handlers: dict[signal.Signals, _Handler]
    sockets: tuple[socket.socket, ...]


_before: list[_Before] = []
_blocked = threading.local()


@contextmanager
def apart_from_children(*sockets: socket.socket) -> Iterator[None]:
    """Put back the handlers of SIGINT and SIGTERM in each child that is forked meanwhile, and close `sockets` there.

    Signals are told to nobody there. Python's handler in C would write them to the parent's socket: to end a child, as
    `multiprocessing` does, would stop the run.
    """
    before = _Before({number: signal.getsignal(number) for number in STOPPING}, sockets)
    _before.append(before)
    try:
        yield
    finally:
        if before in _before:  # a forked child that comes here has none
            _before.remove(before)


def _block() -> None:
    # A signal for the child may come before it has put anything back.
    _blocked.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING) if _before else None


def _unblock() -> None:
    if _blocked.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.mask)


def _put_back() -> None:
    if _before:
        signal.set_wakeup_fd(-1)
        for number, handler in _before[0].handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for one in _before:
            for end in one.sockets:
                end.close()
        _before.clear()
    _unblock()


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_put_back)

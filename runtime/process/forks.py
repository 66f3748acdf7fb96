"""A child process that a user's function forks gets the signal handlers that were set before the run."""

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


class _Handling(NamedTuple):
    """The signal handlers before a run, and the sockets on which the run receives its signals."""

    handlers: dict[signal.Signals, _Handler]
    sockets: tuple[socket.socket, ...]


_before: list[_Handling] = []
_blocked = threading.local()


@contextmanager
def apart_from_children(*sockets: socket.socket) -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM in each child that is forked meanwhile, and close `sockets` there.

    Else Python's handler in C would write a signal of the child to the parent's socket, so that a signal that ends a
    child, as `multiprocessing` sends, would stop the run.
    """
    before = _Handling({number: signal.getsignal(number) for number in STOPPING}, sockets)
    _before.append(before)
    try:
        yield
    finally:
        if before in _before:  # in a forked child the list is empty
            _before.remove(before)


def _block() -> None:
    # A signal may reach the child before its handlers are restored.
    _blocked.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING) if _before else None


def _unblock() -> None:
    if _blocked.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.mask)


def _restore() -> None:  # pragma: no cover - tests take it in children that they fork, which are not traced
    if _before:
        signal.set_wakeup_fd(-1)
        for number, handler in _before[0].handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for one in _before:
            for end in one.sockets:
                end.close()
        _before.clear()
    _unblock()


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_restore)

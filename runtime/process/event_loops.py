"""Event loops that users' asynchronous functions may run in."""

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial

from ...dsl.errors import MissingExtraError
from ...dsl.validation import explain
from ...planner.settings import EventLoop

LoopMaker = Callable[[], asyncio.AbstractEventLoop]


def loop_maker(event_loop: EventLoop) -> LoopMaker:
    """What makes an event loop of a kind. Raises MissingExtraError where its package is not installed.

    >>> loop_maker("asyncio") is asyncio.new_event_loop
    True
    """
    return asyncio.new_event_loop if event_loop == "asyncio" else _uvloop()


def _uvloop() -> LoopMaker:
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        wrong = f"Settings: event_loop='uvloop', and {error.name} is not installed"
        remedy = "pip install 'fluvial[uvloop]', or leave it out: the default is 'asyncio'"
        raise MissingExtraError(explain(wrong, "the extra that brings it", remedy)) from error

    class Loop(uvloop.Loop):
        """While it runs, uvloop gets signals through the wake-up descriptor of Python, in place of whoever had that
        before, and lets Python handle them at its next turn. A call that does not return would then keep the run from
        being stopped. So the descriptor is given back: the turns of a run come often enough for Python's handlers."""

        def run_forever(self) -> None:
            """Run until `stop` is called."""
            if threading.current_thread() is threading.main_thread():
                listener = signal.set_wakeup_fd(-1)
                restore = partial(signal.set_wakeup_fd, listener, warn_on_full_buffer=False)
                restore()
                self.call_soon(restore)
            super().run_forever()

    return Loop

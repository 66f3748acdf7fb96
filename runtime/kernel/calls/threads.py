"""The threads of `asyncio.to_thread` calls in users' functions."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""The default of asyncio."""


class CallThreads(ThreadPoolExecutor):
    """The default executor of an event loop. When the process ends, the interpreter does not wait for these threads, as
    it does for those of the base class: a call that never returns must not keep the process alive. There are at most
    `most` threads.

    asyncio accepts only subclasses of ThreadPoolExecutor.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        super().__init__(most)
        self._most = most
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._open = 0
        self._over = False

    @property
    def open(self) -> int:
        """How many calls run or wait for a thread; those that a timeout gave up count until they return."""
        return self._open

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Make a call in a thread. Raises RuntimeError after `shutdown`, and where no thread can be started at all."""
        future: Future[T] = Future()
        with self._guard:
            if self._over:
                raise RuntimeError("the run is over: no thread takes another call")
            # One more only where all others are taken, also by calls that were given up: these count until they return.
            if len(self._workers) < min(self._open + 1, self._most):
                self._start_worker()
            self._open += 1
            self._calls.put(partial(settle, future, partial(fn, *args, **kwargs)))
        return future

    def _start_worker(self) -> None:
        """Start one more thread. Where the system allows none, calls wait for those that there are."""
        worker = threading.Thread(target=self._work, name=f"fluvial-call-{len(self._workers)}", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            if not self._workers:
                raise
        else:
            self._workers.append(worker)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the calls that were submitted. `cancel_futures` is ignored."""
        del cancel_futures
        with self._guard:
            if not self._over:
                self._over = True
                for _ in self._workers:
                    self._calls.put(None)
        if wait:
            for worker in self._workers:
                worker.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # it refers to the user's arguments
            with self._guard:
                self._open -= 1


def settle(future: "Future[Any]", call: Callable[[], Any]) -> None:
    """Make a call, and give its result or its error to a future, unless that was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except StopIteration as error:  # a future takes none: whoever awaits it would wait for ever
        future.set_exception(_raised(error))
        del future, call
    except BaseException as error:
        future.set_exception(error)
        del future, call  # the error's traceback refers to this frame
    else:
        future.set_result(result)


def _raised(error: StopIteration) -> RuntimeError:
    """What stands for a StopIteration, as where a generator raises it."""
    raised = RuntimeError(f"a call in a thread raised {error!r}")
    raised.__cause__ = error
    return raised

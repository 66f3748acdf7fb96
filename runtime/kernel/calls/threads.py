"""Threads for what users' asynchronous functions call by `asyncio.to_thread`."""

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
"""As many as asyncio has by default."""


class CallThreads(ThreadPoolExecutor):
    """The default executor of an event loop. The interpreter does not wait for its threads at its end, as it does for
    those of the class below, so that a call which never returns keeps no process from ending.

    asyncio takes no executor of another class.
    """

    def __init__(self) -> None:
        super().__init__(MOST_THREADS)
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._open = 0
        self._over = False

    @property
    def open(self) -> int:
        """How many calls have not returned."""
        return self._open

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Let a thread make a call. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._guard:
            if self._over:
                raise RuntimeError("the run is over: no thread takes another call")
            self._open += 1
            self._calls.put(partial(_make, future, partial(fn, *args, **kwargs)))
            if len(self._workers) < min(self._open, MOST_THREADS):
                worker = threading.Thread(target=self._work, name=f"fluvial-call-{len(self._workers)}", daemon=True)
                self._workers.append(worker)
                worker.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let threads end once they have made the calls they were given; `cancel_futures` is not heeded."""
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
            del call  # which refers to what it was given
            with self._guard:
                self._open -= 1


def _make(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        del future, call  # the error's traceback refers to this frame
    else:
        future.set_result(result)

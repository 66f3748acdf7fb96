"""Work of a container that may wait, for a broker say: it runs in threads while asynchronous calls are in flight."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[Callable[[], Any] | None, Any, T]
"""Work as a generator. It yields each step that may wait, as a function, and is sent the result. It yields None where
it has run for some time, so that the event loop can go on."""


def run_steps(work: Steps[T]) -> T:
    """Run all steps in this thread, without yielding."""
    result: Any = None
    while True:
        try:
            step = work.send(result)
        except StopIteration as done:
            outcome: T = done.value
            return outcome
        result = None if step is None else step()


async def run_steps_in_threads(work: Steps[T], busy: Callable[[], bool]) -> T:
    """Run the steps of a task's work. While `busy()` is true each step runs in a thread, so that asynchronous calls
    continue. A step of None yields to the event loop."""
    result: Any = None
    while True:
        try:
            step = work.send(result)
        except StopIteration as done:
            outcome: T = done.value
            return outcome
        if step is None:
            await asyncio.sleep(0)
            result = None
        else:
            result = await _in_thread(step) if busy() else step()


async def _in_thread(step: Callable[[], Any]) -> Any:
    """Call a function in a daemon thread. The end of the process does not wait for that thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def call() -> None:
        result, error = None, None
        try:
            result = step()
        # Raised where the result is awaited: in a thread nobody would see it.
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: the result is not needed
            loop.call_soon_threadsafe(deliver, result, error)

    Thread(target=call, name="fluvial-step", daemon=True).start()
    return await future

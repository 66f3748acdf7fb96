"""Work of a container that waits, such as for a broker: done beside its event loop while calls are under way."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[Callable[[], Any] | None, Any, T]
"""Work that yields each function that may have to wait, and is given what it returns. The rest takes no time; where it
may have taken some, it yields None."""


def at_once(work: Steps[T]) -> T:
    """Do work here and now."""
    answer: Any = None
    while True:
        try:
            step = work.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = None if step is None else step()


async def apart(work: Steps[T], busy: Callable[[], bool]) -> T:
    """Do work whose steps leave the loop to others, each in a thread, while it is `busy`; and so does None."""
    answer: Any = None
    while True:
        try:
            step = work.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if step is None:
            await asyncio.sleep(0)
            answer = None
        else:
            answer = await _in_thread(step) if busy() else step()


async def _in_thread(step: Callable[[], Any]) -> Any:
    """What a function returns, called in a daemon thread: who gives up does not wait for it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if answer.cancelled():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def call() -> None:
        result, error = None, None
        try:
            result = step()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, error)

    Thread(target=call, name="fluvial-apart", daemon=True).start()
    return await answer

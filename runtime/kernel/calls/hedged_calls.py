"""Hedged calls: a second call where the first takes long, and the result of the one that ends first."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any

from .call_keys import offer_keys, present_keys


class HedgedCalls:
    """Makes the calls of one function, and a second one for each that has not ended after `delay` seconds. The first
    that succeeds counts, and the other is cancelled; where both fail, the error of the first one counts. Where it is
    cancelled itself it ends with both.

    Others that ignore their cancellation run on. While there are `most` of them, no second call is made.
    """

    def __init__(self, fn: Callable[[Any], Awaitable[Any]], delay: float, most: int) -> None:
        self._fn, self._delay, self._most = fn, delay, most
        self._left: set[asyncio.Task[Any]] = set()
        self.count = 0
        """How many second calls were made."""

    async def __call__(self, value: Any) -> Any:
        """Make a call, and perhaps a second one."""
        # Each call has a context of its own, and the keys of the one that it is made for.
        context = copy_context()
        context.run(offer_keys, present_keys())
        tasks = [self._begun(value, context.copy())]
        try:
            done, _ = await asyncio.wait(tasks, timeout=self._delay)
            if not done and len(self._left) < self._most:
                self.count += 1
                tasks.append(self._begun(value, context.copy()))
            return await self._first_result(tasks)
        except asyncio.CancelledError:
            # At the timeout of the call, which ends with both of its calls: one that does not heed its cancellation is
            # then given up, and bounded, as it is without a second one.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                self._ended(task)
            raise
        finally:
            for task in tasks:
                if not task.done():
                    task.cancel()
                    self._left.add(task)
                    task.add_done_callback(self._ended)
            # An error's traceback refers to this frame, and a task to its error.
            del tasks

    def _begun(self, value: Any, context: Context) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(self._awaited(value), context=context)

    async def _awaited(self, value: Any) -> Any:
        return await self._fn(value)

    async def _first_result(self, tasks: "list[asyncio.Task[Any]]") -> Any:
        running = set(tasks)
        while running:
            _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            # In the order in which they began: of two results that are there at once the first call's counts, as
            # without hedging.
            for task in tasks:
                if task.done() and not task.cancelled() and task.exception() is None:
                    return task.result()
        return tasks[0].result()

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio logs that it was never retrieved

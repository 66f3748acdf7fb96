"""Those who wait until something holds in an executor."""

import asyncio
from collections.abc import Callable


class Watchers:
    """Coroutines of one event loop that wait, each with its condition. Whoever changes what a condition asks calls
    `look`. A condition that was seen to hold counts, whatever it is when the coroutine goes on."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until a condition holds, at most so many seconds. Returns whether it was seen to hold."""
        if holds():
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = holds
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return holds()
        finally:
            del self._waiting[waiter]
        return True

    def look(self) -> None:
        """Wake those whose condition holds."""
        for waiter, holds in self._waiting.items():
            if not waiter.done() and holds():
                waiter.set_result(None)

"""Permits for calls that run at once, given in the order in which they were asked for."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class CallPermits:
    """At most `size()` calls have a permit, and the others wait, first come, first served."""

    def __init__(self, size: Callable[[], int]) -> None:
        self.taken = 0
        """How many calls have a permit."""
        self._size = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for a permit."""
        return sum(not ready.done() for ready in self._waiting)

    async def enter(self) -> None:
        """Wait for a permit, which `leave` gives back."""
        if self.taken < self._size() and not self._waiting:
            self.taken += 1
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self.leave()
            else:  # where no permit comes back, those who gave up would be kept for ever
                with suppress(ValueError):
                    self._waiting.remove(ready)
            raise

    def leave(self) -> None:
        """Give a permit back, to the calls that have waited longest."""
        self.taken -= 1
        while self._waiting and self.taken < self._size():
            ready = self._waiting.popleft()
            if not ready.done():
                self.taken += 1
                ready.set_result(None)

    def clear(self) -> None:
        """Forget all calls, those with a permit and those that wait for one: none of them goes on."""
        self._waiting.clear()
        self.taken = 0

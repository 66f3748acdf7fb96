"""Places for calls that run at once, given in the order in which they were asked for."""

import asyncio
from collections import deque
from collections.abc import Callable


class CallPlaces:
    """At most `size()` calls have a place, and the others wait, first come, first served."""

    def __init__(self, size: Callable[[], int]) -> None:
        self.taken = 0
        """How many calls have a place."""
        self._size = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for a place."""
        return sum(not ready.done() for ready in self._waiting)

    async def enter(self) -> None:
        """Wait for a place, which `leave` gives back."""
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
            raise

    def leave(self) -> None:
        """Give a place back, to the calls that have waited longest."""
        self.taken -= 1
        while self._waiting and self.taken < self._size():
            ready = self._waiting.popleft()
            if not ready.done():
                self.taken += 1
                ready.set_result(None)

    def clear(self) -> None:
        """Forget all calls, those with a place and those that wait for one: none of them goes on."""
        self._waiting.clear()
        self.taken = 0

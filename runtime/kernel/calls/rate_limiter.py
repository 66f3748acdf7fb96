"""A rate that calls of a process keep to."""

import asyncio


class RateLimiter:
    """Limits calls to `per_second` keys each second, evenly spaced. None is no limit."""

    def __init__(self, per_second: float | None) -> None:
        self._pause = 0.0 if per_second is None else 1 / per_second
        self._slack = 0.0 if per_second is None else max(0.1, self._pause)
        self._free_at = float("-inf")

    async def take(self, keys: int = 1) -> None:
        """Wait until a call with so many keys is within the limit."""
        if not self._pause:
            return
        now = asyncio.get_running_loop().time()
        begin = max(self._free_at, now - self._slack)
        self._free_at = begin + keys * self._pause
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)

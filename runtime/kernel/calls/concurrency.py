"""How many calls of a pool run at once, by how long the service takes."""

import asyncio
import math

from ....dsl.adaptive import Adaptive
from .permits import CallPermits

PROBE_SECONDS = 5.0
"""So often the window is made small for a moment, to measure again how long a call takes that does not wait."""
_FEWEST = 10
"""The window changes after so many calls at least, or after as many as it has, if those are fewer."""
_FAILED = 0.1
"""The window shrinks when more than this share of the calls fail."""
# A service that fails is overloaded, or down: each look takes nearly a third away, so few looks reach the least number.
_SHRINKS = 0.7
# One slow look halves the number at most: the mean of few calls may be that of a pause of the service.
_LEAST_GRADIENT = 0.5


class ServiceWindow:
    """How many calls may run at once, by the times that they take in the service: as many as it works on at a time, and
    about the square root of that number more, so that it never lacks work. Times are seconds of one clock.

    A call that takes twice as long as one without others beside it waits half of its time in the service: with half as
    many calls at once the service would do as much. Waits for an order, a limit or a next attempt do not count.
    """

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self.size = float(min(most, max(least, _FEWEST)))
        """How many calls may run at once."""
        self._base = math.inf
        self._took: list[float] = []
        self._failed = 0
        self._most_at_once = 0
        self._probe_at: float | None = None
        self._probed_from: float | None = None
        self._kept = self.size

    def begin(self, now: float, running: int) -> None:
        """A call begins; with it `running` calls run."""
        self._most_at_once = max(self._most_at_once, running)
        if self._probe_at is None:
            self._probe_at = now + PROBE_SECONDS

    def end(self, began: float, now: float, *, failed: bool) -> None:
        """A call that began at the time `began` has ended."""
        if self._probed_from is not None and began < self._probed_from:
            return  # of before the window was made small
        if failed:
            self._failed += 1
        else:
            self._took.append(now - began)
        if len(self._took) + self._failed >= max(1, min(_FEWEST, self.size), self.size / 2):
            self._change(now)

    def _change(self, now: float) -> None:
        took, failed = self._took, self._failed
        self._took, self._failed = [], 0
        if self._probed_from is not None:
            self._base = math.fsum(took) / len(took) if took else self._base
            self.size, self._probed_from, self._probe_at = self._kept, None, now + PROBE_SECONDS
            self._most_at_once = 0
            return
        if failed > _FAILED * (len(took) + failed):
            self._set(self.size * _SHRINKS)
        elif took:
            mean = math.fsum(took) / len(took)
            self._base = min(self._base, mean)
            gradient = max(_LEAST_GRADIENT, min(1.0, self._base / mean)) if mean > 0 else 1.0
            wanted = self.size * gradient + math.sqrt(self.size)
            # As long as fewer calls run than may, it is not known whether the service would take more.
            self._set(wanted if self._most_at_once >= int(self.size) else min(wanted, self.size))
        self._most_at_once = 0
        if self._probe_at is not None and now >= self._probe_at:
            self._kept, self._probed_from = self.size, now
            self._set(self.size - 2 * math.sqrt(self.size))

    def _set(self, size: float) -> None:
        self.size = max(float(self._least), min(float(self._most), size))


class Concurrency:
    """Lets as many calls of one pool run as its window has, and the others wait, first come, first served."""

    def __init__(self, adaptive: Adaptive, most: int) -> None:
        self.window = ServiceWindow(adaptive.least, most)
        self._permits = CallPermits(lambda: int(self.window.size))

    @property
    def running(self) -> int:
        """How many calls run."""
        return self._permits.taken

    @property
    def waiting(self) -> int:
        """How many calls wait for their turn."""
        return self._permits.waiting

    async def enter(self) -> None:
        """Wait until one more call may run."""
        await self._permits.enter()

    def begin(self) -> float:
        """A call that has entered begins now. Returns the time, for `leave`."""
        now = asyncio.get_running_loop().time()
        self.window.begin(now, self.running)
        return now

    def leave(self, began: float, *, failed: bool) -> None:
        """A call that began at the time `began` has ended: give its permit back."""
        self.window.end(began, asyncio.get_running_loop().time(), failed=failed)
        self.give_up()

    def give_up(self) -> None:
        """A call that has entered does not run: give its permit back, and take no measure of it."""
        self._permits.leave()

    def close(self) -> None:
        """Forget all calls, those that run and those that wait: their pool is closed."""
        self._permits.clear()

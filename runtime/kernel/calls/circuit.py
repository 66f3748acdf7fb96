"""Leaves off calls of a service that fails: one `Circuit` for each breaker of a process."""

import asyncio
import logging
import math
from collections import deque

from ....dsl.breaker import Breaker
from ....planner.descriptions import duration
from .cancellation import is_one_of

_log = logging.getLogger(__name__)


class Circuit:
    """Closed, calls pass. Open, they wait until the rest is over; then one of them passes to try, and the others follow
    if it does not fail."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker, self.name = breaker, breaker.name
        self.openings = 0
        """How often it has opened."""
        self._failures = 0
        self._open_until = -math.inf
        self._tries = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Whether calls are left off, but for one that tries."""
        return self._open_until > -math.inf

    @property
    def waiting(self) -> int:
        """How many calls wait for the end of a rest."""
        return sum(not ready.done() for ready in self._waiting)

    async def rested(self) -> None:
        """Wait until a call may pass, as far as is known: while the circuit is closed, or to try."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what waited in an earlier event loop, or tried there, has ended with it
            self._loop, self._timer, self._tries = loop, None, False
            self._waiting.clear()
        while self._rests(loop):
            ready: asyncio.Future[None] = loop.create_future()
            self._waiting.append(ready)
            self._set_timer()
            await ready

    def passes(self) -> bool | None:
        """Let a call pass that has waited until it may: whether it is to try; None where another one tries."""
        if not self.open:
            return False
        if self._loop is None or self._rests(self._loop):
            return None
        self._tries = True
        return True

    def _rests(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.open and (self._tries or loop.time() < self._open_until)

    def leave(self, error: BaseException | None, *, tried: bool, given_up: bool = False) -> None:
        """A call that has passed has ended, or was `given_up` in between, which tells nothing of the service."""
        if tried:
            self._tries = False
        if given_up:
            self._wake()
        elif error is None or not is_one_of(error, self.breaker.on):
            self._failures, self._open_until = 0, -math.inf
            self._wake()
        else:
            self._failures += 1
            if tried or (not self.open and self._failures >= self.breaker.failures):
                self._begin_rest(error)

    def room(self, expected: int) -> int:
        """How many calls more may be submitted, where so many are expected: none while it rests, then one to try."""
        if not self.open:
            return 1 << 30
        over = self._loop is None or self._loop.is_closed() or self._loop.time() >= self._open_until
        return max(0, 1 - expected) if over and not self._tries else 0

    def _begin_rest(self, error: BaseException) -> None:
        assert self._loop is not None  # a call has passed in it
        self._open_until = self._loop.time() + self.breaker.rest_ms / 1000
        self.openings += 1
        text = "breaker %r: calls rest for %s after %d failures in a row, the last of them %s: %s"
        rest = duration(self.breaker.rest_ms)
        _log.warning(text, self.name, rest, self._failures, type(error).__name__, error)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._loop is not None and self.open and not self._tries:
            self._timer = self._loop.call_at(self._open_until, self._rest_is_over)

    def _rest_is_over(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        """Let all that wait look again. Not the first alone: it may wait for a limit, or be cancelled."""
        while self._waiting:
            ready = self._waiting.popleft()
            if not ready.done():
                ready.set_result(None)

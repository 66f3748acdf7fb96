"""Circuit breakers: calls of a service that fails wait. Each process has one `Circuit` for each `Breaker`."""

import asyncio
import logging
import math
from collections import deque

from ....dsl.breaker import Breaker
from ....dsl.text import error_text, visible
from ....planner.descriptions import duration
from .cancellation import is_one_of

_log = logging.getLogger(__name__)


class Circuit:
    """The circuit of a breaker. While it is closed, calls pass. While it is open, they wait until its rest is over;
    then one call passes, to try the service. If that does not fail, the circuit closes, and the others pass."""

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
        """Whether calls wait, all but the one that tries the service."""
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
        """Let a call pass that `rested` has let go. Returns whether it tries the service; None where it must wait
        again, since another call tries."""
        if not self.open:
            return False
        if self._loop is None or self._rests(self._loop):
            return None
        self._tries = True
        return True

    def _rests(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.open and (self._tries or loop.time() < self._open_until)

    def leave(self, error: BaseException | None, *, tried: bool, given_up: bool = False) -> None:
        """A call that has passed has ended. One that was `given_up` before its end says nothing about the service."""
        # First: from here on another call may try, whatever this one says. Else all would wait for a try that is over.
        if tried:
            self._tries = False
        if given_up:
            self._wake()
        elif error is None or not is_one_of(error, self.breaker.on):
            # Also for a call that began before the circuit opened: the service answers, whoever has asked.
            self._failures, self._open_until = 0, -math.inf
            self._wake()
        else:
            self._failures += 1
            # Not while it is open: calls that began before the rest fail late, and must not prolong it one by one.
            if tried or (not self.open and self._failures >= self.breaker.failures):
                self._begin_rest(error)

    def room(self, expected: int) -> int:
        """How many more calls may be submitted where so many are `expected`: none during a rest, then one to try."""
        if not self.open:
            return 1 << 30
        # Without a loop no call waits for a timer, so the rest of an earlier run counts as over: one call is to find
        # out.
        over = self._loop is None or self._loop.is_closed() or self._loop.time() >= self._open_until
        return max(0, 1 - expected) if over and not self._tries else 0

    def _begin_rest(self, error: BaseException) -> None:
        assert self._loop is not None  # a call has passed in it
        self._open_until = self._loop.time() + self.breaker.rest_ms / 1000
        self.openings += 1
        text = "breaker %r: calls rest for %s after %d failures in a row, the last of them %s"
        rest = duration(self.breaker.rest_ms)
        _log.warning(text, self.name, rest, self._failures, visible(error_text(error)))
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._loop is not None and self.open and not self._tries:
            self._timer = self._loop.call_at(self._open_until, self._rest_is_over)

    def _rest_is_over(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        """Let all waiting calls check again. Not only the first: it may go on to wait for a limit, or be cancelled."""
        while self._waiting:
            ready = self._waiting.popleft()
            if not ready.done():
                ready.set_result(None)

"""The doors of remote tables: of the calls of their functions, and of the messages that these are called for."""

import asyncio
from collections.abc import Callable
from typing import Any

from .admission import Admission, Ticket
from .call import Call
from .circuit import Circuit
from .concurrency import Concurrency
from .door import Door
from .hedged_calls import HedgedCalls
from .rate_limiter import RateLimiter


class FunctionDoor(Door):
    """The door of the calls of one function of a remote table, of all tasks in a process: behind the cache and batches
    of the table. They also keep to a `rate` of keys. The value of a call has up to `batch` of them, where it has
    several. With `cached` rows may be in the cache of the table. `make` makes what follows the service.
    """

    def __init__(
        self,
        rate: RateLimiter,
        admission: Admission | None,
        circuit: Circuit | None = None,
        *,
        batch: int | None = None,
        cached: bool = False,
        make: Callable[[], Concurrency] | None = None,
    ) -> None:
        super().__init__(admission, circuit, None if make is None else make())
        self._rate, self._batch, self._cached, self._make = rate, batch, cached, make
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _admitted(self, value: Any) -> Ticket | None:
        """Wait until a call is one of those that may run."""
        concurrency = self._permits()
        if concurrency is not None:
            await concurrency.enter()
        try:
            # Last: calls that have rested, or waited for their turn, must not begin all at once.
            await self._rate.take(1 if self._batch is None else len(value))
            return None if self._admission is None else await self._admission.enter(value)
        except BaseException:
            if concurrency is not None:
                concurrency.give_up()
            raise

    def _permits(self) -> Concurrency | None:
        """Who may run in the present event loop. Calls of an earlier one have ended with it, and give nothing back."""
        if self._make is not None and (loop := asyncio.get_running_loop()) is not self._loop:
            if self._loop is not None:
                self._concurrency: Concurrency | None = self._make()
                self._began.clear()
            self._loop = loop
        return self._concurrency

    def give_up(self, call: Call) -> None:
        """A call is cancelled: it has cost nothing, and says nothing about the service."""
        if (inside := self._inside.pop(call, None)) is None:
            return
        ticket, tried = inside
        if self._concurrency is not None and self._began.pop(call, None) is not None:
            self._concurrency.give_up()
        if self._circuit is not None:
            self._circuit.leave(None, tried=tried, given_up=True)
        self._leave_limit(ticket, call, (), failed=True)

    def room_for(self, expected: int) -> int:
        """How many more messages may be taken, with so many on their way to the table. The limit counts for none of
        them: the cache may have their rows."""
        room = 1 << 30
        if (circuit := self._circuit) is not None:
            room = circuit.room(0 if self._cached else expected)
            if self._cached and room:  # one by one they might come from the cache for long, and none would try
                room = 1 << 30
        if (concurrency := self._concurrency) is not None:
            over = self._loop is None or self._loop.is_closed()
            busy = 0 if over else concurrency.running + concurrency.waiting
            # A queue holds as many calls as may run.
            room = min(room, max(0, (2 * int(concurrency.window.size) - busy) * (self._batch or 1) - expected))
        return room

    @property
    def holds(self) -> bool:
        """Whether calls wait for what others share, or no message is taken because of that."""
        waiting = self._admission is not None and self._admission.waiting > 0
        return waiting or (self._circuit is not None and self._circuit.open)


class TableDoor(Door):
    """The door of the messages of one operator in one task that go to a remote table. It lets all of them begin: what
    the table is asked for them waits at the door of its function, `calls`. No message is taken that would wait there
    for a breaker, and few that would wait for their turn."""

    def __init__(self, calls: FunctionDoor, hedged: HedgedCalls | None = None) -> None:
        super().__init__(None)
        self._calls, self._hedged = calls, hedged

    @property
    def hedges(self) -> int | None:
        """How many second calls were made for the messages; None without `hedge=`."""
        return None if self._hedged is None else self._hedged.count

    @property
    def room(self) -> int:
        """How many more messages may be submitted now."""
        return self._calls.room_for(self._expected)

    @property
    def holds(self) -> bool:
        """Whether calls of the table wait, or no message is taken."""
        return self._calls.holds

    async def enter(self, call: Call) -> Exception | None:
        """Let each message begin."""
        del call
        if self._expected:  # of a door that was closed none is
            self._arrived(1)
        return None

    @property
    def at_once(self) -> int | None:
        """How many calls of the function may run at once in this process at present, if that follows the service."""
        return self._calls.at_once

    def flush(self) -> None:
        """A commit waits for calls: see `Admission.flush`."""
        self._calls.flush()

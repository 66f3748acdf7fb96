"""The doors of remote tables: of the calls of their functions, and of the messages that these are called for."""

from typing import Any

from .admission import Admission, Ticket
from .call import Call
from .circuit import Circuit
from .door import Door
from .rate_limiter import RateLimiter


class FunctionDoor(Door):
    """The door of the calls of one function of a remote table, of all tasks in a process: behind the cache and batches
    of the table. They also keep to a `rate` of keys; with `batches` the value of a call has several.
    """

    def __init__(
        self, rate: RateLimiter, admission: Admission | None, circuit: Circuit | None = None, *, batches: bool = False
    ) -> None:
        super().__init__(admission, circuit)
        self._rate, self._batches = rate, batches

    async def _admitted(self, value: Any) -> Ticket | None:
        """Wait until a call is one of those that may run."""
        # Behind the breaker: calls that have rested must not begin all at once.
        await self._rate.take(len(value) if self._batches else 1)
        return await super()._admitted(value)

    def give_up(self, call: Call) -> None:
        """A call is cancelled: it has cost nothing, and says nothing about the service."""
        if (inside := self._inside.pop(call, None)) is None:
            return
        ticket, tried = inside
        if self._circuit is not None:
            self._circuit.leave(None, tried=tried, given_up=True)
        self._leave_limit(ticket, call, (), failed=True)

    def room_for(self, expected: int) -> int:
        """How many more messages may be taken, with so many on their way to the table. The limit counts for none of
        them: the cache may have their rows."""
        return 1 << 30 if self._circuit is None else self._circuit.room(expected)

    @property
    def holds(self) -> bool:
        """Whether calls wait for what others share, or no message is taken because of that."""
        waiting = self._admission is not None and self._admission.waiting > 0
        return waiting or (self._circuit is not None and self._circuit.open)


class TableDoor(Door):
    """The door of the messages of one operator in one task that go to a remote table. It lets all of them begin: what
    the table is asked for them waits at the door of its function, `calls`. No message is taken that would wait there
    for a breaker."""

    def __init__(self, calls: FunctionDoor) -> None:
        super().__init__(None)
        self._calls = calls

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

    def flush(self) -> None:
        """A commit waits for calls: see `Admission.flush`."""
        self._calls.flush()

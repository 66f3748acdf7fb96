"""Doors: what each attempt of a call passes before it begins, in front of the calls of one pool."""

import asyncio
from typing import Any

from ....dsl.pooled_function import PooledFunction
from .admission import Admission, Ticket
from .call import Call
from .circuit import Circuit
from .concurrency import Concurrency
from .function_pools import FunctionPool, loop_pools


class Door:
    """Lets the calls of one pool begin: within a limit and while a breaker is closed, both of which other pools may
    share, and as many at once as the service takes."""

    def __init__(
        self, admission: Admission | None, circuit: Circuit | None = None, concurrency: Concurrency | None = None
    ) -> None:
        self._admission, self._circuit, self._concurrency = admission, circuit, concurrency
        self._began: dict[Call, float] = {}
        self._expected = 0
        self._inside: dict[Call, tuple[Ticket | None, bool]] = {}

    @property
    def room(self) -> int:
        """How many more calls may be submitted now."""
        room = 1 << 30 if self._circuit is None else self._circuit.room(self._expected)
        if (concurrency := self._concurrency) is not None:
            # A queue holds as many calls as may run.
            room = min(room, max(0, 2 * int(concurrency.window.size) - concurrency.running - self._expected))
        return room if self._admission is None else min(room, self._admission.room())

    @property
    def at_once(self) -> int | None:
        """How many calls may run at once at present, if that follows the service."""
        return None if self._concurrency is None else int(self._concurrency.window.size)

    @property
    def hedges(self) -> int | None:
        """How many second calls were made behind the door; None if none ever is."""
        return None

    @property
    def holds(self) -> bool:
        """Whether calls wait, or none may be submitted."""
        if self._circuit is not None and self._circuit.open:
            return True
        return self._admission is not None and self._admission.holds

    def expect(self) -> None:
        """A call will come: one that is submitted, or is to be made again."""
        self._expected += 1
        if self._admission is not None:
            self._admission.expected += 1

    async def enter(self, call: Call) -> Exception | None:
        """Wait until a call may begin. Returns its error where it never may."""
        try:
            self._inside[call] = await self._entered(call.value)
        except Exception as error:
            return error
        finally:
            # Where the door was closed meanwhile, `close` has counted all expected calls as arrived.
            if self._expected:
                self._arrived(1)
        if self._concurrency is not None:
            self._began[call] = self._concurrency.begin()
        return None

    async def _entered(self, value: Any) -> tuple[Ticket | None, bool]:
        circuit = self._circuit
        while True:
            if circuit is not None:  # first: a call that rests is to take nothing that others could use
                await self._rested(circuit)
            # A call that waits for its turn does not try yet: it would hold all others back.
            ticket = await self._admitted(value)
            tries = False if circuit is None else circuit.passes()
            if tries is not None:
                return ticket, tries
            self._give_back(ticket)  # calls rest again, or another one tries

    async def _rested(self, circuit: Circuit) -> None:
        """Wait until calls do not rest."""
        await circuit.rested()

    async def _admitted(self, value: Any) -> Ticket | None:
        """Wait until a call is one of those that may run."""
        if self._concurrency is not None:
            await self._concurrency.enter()
        try:
            return None if self._admission is None else await self._admission.enter(value)
        except BaseException:
            if self._concurrency is not None:
                self._concurrency.give_up()
            raise

    def _give_back(self, ticket: Ticket | None) -> None:
        """A call that was admitted does not run."""
        if self._admission is not None and ticket is not None:
            self._admission.give_back(ticket)
        if self._concurrency is not None:
            self._concurrency.give_up()

    def leave(self, call: Call, results: Any, error: BaseException | None) -> Exception | None:
        """A call has ended, with results or an error. Returns the error of a function of the limit, if one fails."""
        if (inside := self._inside.pop(call, None)) is None:
            return None
        ticket, tried = inside
        if self._concurrency is not None:
            self._concurrency.leave(self._began.pop(call), failed=error is not None)
        if self._circuit is not None:
            self._circuit.leave(error, tried=tried)
        return self._leave_limit(ticket, call, results, failed=error is not None)

    def _leave_limit(self, ticket: Ticket | None, call: Call, results: Any, *, failed: bool) -> Exception | None:
        if self._admission is None or ticket is None:
            return None
        try:
            self._admission.leave(ticket, call.value, results, failed=failed)
        except Exception as raised:
            return raised
        return None

    def flush(self) -> None:
        """A commit waits for calls: see `Admission.flush`."""
        if self._admission is not None:
            self._admission.flush()

    def close(self) -> None:
        """Let no more calls begin. Those in flight are cancelled: they have cost nothing, and say nothing about the
        service."""
        # Others may share the limit: room that is held for calls which do not come would be lost to them for good.
        self._arrived(self._expected)
        if self._concurrency is not None:
            self._concurrency.close()
            self._began.clear()
        # Emptied first: a call that leaves its limit lets others begin, and one that is cancelled leaves a second time.
        inside, self._inside = self._inside, {}
        for call, (ticket, tried) in inside.items():
            if self._circuit is not None:
                self._circuit.leave(None, tried=tried, given_up=True)
            self._leave_limit(ticket, call, (), failed=True)

    def _arrived(self, calls: int) -> None:
        self._expected -= calls
        if self._admission is not None:
            self._admission.expected -= calls


class PoolDoor(Door):
    """The door of calls of a plain function. They also wait for a permit of the pool of the function, before their
    timeout begins. Messages are taken for twice as many calls as there are permits, so that a commit waits for few."""

    def __init__(
        self,
        pooled: PooledFunction[..., Any],
        admission: Admission | None,
        circuit: Circuit | None = None,
        concurrency: Concurrency | None = None,
    ) -> None:
        super().__init__(admission, circuit, concurrency)
        self._pooled = pooled
        self._known: FunctionPool | None = None

    @property
    def room(self) -> int:
        """How many more calls may be submitted now."""
        pool = self._pool()
        # A queue holds as many calls as may run.
        return super().room if pool is None else min(super().room, max(0, 2 * pool.permits.size - pool.permits.wanted))

    @property
    def holds(self) -> bool:
        """Whether calls wait for a limit or a circuit, or may not be submitted because of one. A wait for a permit of
        the pool does not count: it may never end, and then is a stall."""
        if self._known is None or self._known.permits.taken < self._known.permits.size:
            return super().holds
        limited = self._admission is not None and self._admission.waiting > 0
        return limited or (self._circuit is not None and self._circuit.waiting > 0)

    def expect(self) -> None:
        """A call will come: one that is submitted, or is to be made again."""
        super().expect()
        if (pool := self._pool()) is not None:
            pool.permits.expected += 1

    def _arrived(self, calls: int) -> None:
        super()._arrived(calls)
        if self._known is not None:
            self._known.permits.expected -= calls

    def _pool(self) -> FunctionPool | None:
        """The pool whose permits calls wait for; None where no call waits for any."""
        if self._known is None:
            self._known = loop_pools(asyncio.get_running_loop()).waited_for(self._pooled)
        return self._known

    async def enter(self, call: Call) -> Exception | None:
        """Wait until a call may begin. Returns its error where it never may."""
        refused = await super().enter(call)
        if refused is None and (pool := self._pool()) is not None:
            pool.kept += 1
        return refused

    async def _rested(self, circuit: Circuit) -> None:
        """Wait until the circuit lets calls begin. Meanwhile this one is not expected to take a permit."""
        if (pool := self._pool()) is None:
            await super()._rested(circuit)
            return
        pool.permits.expected -= 1
        try:
            await super()._rested(circuit)
        finally:
            pool.permits.expected += 1

    async def _admitted(self, value: Any) -> Ticket | None:
        """Wait until a call is one of those that may run."""
        if (pool := self._pool()) is None:
            return await super()._admitted(value)
        # First: what a limit allows is to be used at once.
        await pool.permits.enter()
        try:
            return await super()._admitted(value)
        except BaseException:
            pool.permits.leave()
            raise

    def _give_back(self, ticket: Ticket | None) -> None:
        """A call that was admitted does not run."""
        super()._give_back(ticket)
        if (pool := self._pool()) is not None:
            pool.permits.leave()

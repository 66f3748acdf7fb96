"""Asynchronous calls: a pool of workers that pull from a queue, and deliver results in the operator's order.

Workers are real asyncio tasks, so that `asyncio.timeout` and task groups work in users' functions. Their number grows
as needed, 1, 2, 4, 8 ..., since a function that never suspends needs only one. If a call, or a function that handles
its results, changes context variables of its worker, a new worker replaces it. A worker awaits functions itself:
another coroutine for each call would take as long as all other work on a call.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol, cast

from ....dsl.error_policy import Retry
from ....dsl.errors import MessageError
from ....dsl.operators import AsyncCall
from ...process.interruptions import INTERRUPTIONS
from .call import Call
from .call_journal import CallJournal, queues_for
from .call_keys import KeysOfCall, keys_of, offer_call, unnamed
from .cancellation import AbandonedCalls, as_error, is_retried, too_late
from .deadlines import Deadlines
from .door import Door
from .hedged_calls import HedgedCalls
from .in_flight import InFlightMessage
from .ordered_queues import share_of
from .retry_pauses import pause_seconds

Sleep = Callable[[float], Awaitable[None]]
Gate = Callable[[Call], Awaitable[None]]
"""Delays the result of a call that has ended, so that tests choose the order in which calls end."""


class Caller(Protocol):
    """What a pool makes calls for, as errors name it: an operator, or an executor."""

    @property
    def label(self) -> str:
        """A short text that names it."""
        ...

    @property
    def origin(self) -> object:
        """The line on which it was written."""
        ...


class CallPool:
    """The calls of one asynchronous operator in one task, or of an executor: at most `max_in_flight` run at once.

    `deliver(call)` is called in the event loop for each call that has ended, in the operator's order. Each attempt
    waits for the `door`, if there is one, before its timeout begins.
    A call that the `journal` answers takes no permit.
    """

    def __init__(
        self,
        caller: Caller,
        call: AsyncCall,
        deliver: Callable[[Call], None],
        sleep: Sleep = asyncio.sleep,
        gate: Gate | None = None,
        door: Door | None = None,
        journal: CallJournal | None = None,
    ) -> None:
        self._fn: Callable[[Any], Awaitable[Iterable[Any]]] = call.fn
        self._hedged: HedgedCalls | None = None
        if call.hedge is not None:
            self._fn = self._hedged = HedgedCalls(call.fn, call.hedge / 1000, call.max_in_flight)
        self.most_in_flight = call.max_in_flight
        self._retry = call.retry or Retry(attempts=1)
        self._queues = queues_for(call.order, share_of(call.max_in_flight), self._queue, deliver, journal)
        self._end = self._queues.end
        self.submit: Callable[[Call], None] = self._queues.submit
        """Queues a call."""
        self._sleep, self._gate, self._door = sleep, gate, door
        self._waiting: deque[Call] = deque()
        self._workers: set[asyncio.Task[Any]] = set()
        self._deadlines = Deadlines(call.timeout / 1000, self._abandon)
        self._timeout = call.timeout
        self._abandoned = AbandonedCalls(call.max_in_flight, caller.label, caller.origin)
        self._origin: Callable[[InFlightMessage], str] = unnamed
        self._clean = copy_context()
        self._clean.run(offer_call, self._keys)
        self._cancelled = False
        self.in_flight = 0

    @property
    def outstanding(self) -> int:
        """How many calls were submitted and not delivered, but for those that are parked."""
        return self._queues.outstanding

    @property
    def parked(self) -> Mapping[str, int]:
        """How many calls wait since their key has too many, by the input or operator of their messages."""
        return self._queues.parked

    @property
    def allowance(self) -> int | None:
        """How many more calls its limit lets be submitted now; None without a limit."""
        return None if self._door is None else self._door.room

    @property
    def held_up(self) -> bool:
        """Whether calls wait for a limit, or will not be taken because of one."""
        return self._door is not None and self._door.holds

    @property
    def at_once(self) -> int | None:
        """How many calls may run at once at present; None where that does not change."""
        return None if self._door is None else self._door.at_once

    @property
    def hedges(self) -> int | None:
        """How many second calls were made beside others that took long; None without `hedge=`."""
        behind = None if self._door is None else self._door.hedges
        return behind if self._hedged is None else self._hedged.count

    def give_names(self, origin: Callable[[InFlightMessage], str]) -> None:
        """Take a function that names the message of a call, for its key."""
        self._origin = origin

    def flush(self) -> None:
        """No more calls come for now: let none wait that could begin."""
        self._queues.begin_all()
        if self._door is not None:
            self._door.flush()

    def _queue(self, call: Call) -> None:
        """Queue a call, and start a worker for it if all workers are busy and there may be more."""
        self._waiting.append(call)
        if self._door is not None:
            self._door.expect()
        # A worker that is not running a call will take this one. If all are, start another worker.
        if self.in_flight == len(self._workers) < self.most_in_flight:
            self._start(self._work())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # Each worker has a copy of the context, so that calls do not see each other's changes.
        worker = asyncio.get_running_loop().create_task(work, context=self._clean.copy())
        self._workers.add(worker)
        worker.add_done_callback(self._gone)

    def _gone(self, worker: "asyncio.Task[Any]") -> None:
        """A worker has ended. The loop itself raises what ends the process, so only other errors are reported here."""
        self._workers.discard(worker)
        error = None if worker.cancelled() else worker.exception()
        if error is not None and not isinstance(error, INTERRUPTIONS):
            worker.get_loop().call_exception_handler({"message": "a worker of calls has failed", "exception": error})

    async def _work(self) -> None:
        worker = cast("asyncio.Task[None]", asyncio.current_task())
        waiting, workers, limit, fn = self._waiting, self._workers, self.most_in_flight, self._fn
        begin, end, gate, finish = self._deadlines.begin, self._deadlines.end, self._gate, self._end
        clean, door = self._clean, self._door
        while waiting:
            if _changed(clean):  # by what followed the call before
                self._replace(worker, self._work())
                return
            call = waiting.popleft()
            if waiting and len(workers) < limit:
                self._start(self._work())
            self.in_flight += 1
            results: list[Any] = []
            error: Exception | None = None
            try:
                refused = None if door is None else await door.enter(call)
            except asyncio.CancelledError:
                self._cut_off(worker, call)
                return
            if refused is not None:
                await self._refuse(call, refused)
                continue
            begin(call, worker)
            try:
                results = list(await fn(call.value))
            except Exception as raised:
                error = raised
            except BaseException as raised:
                error = self._error_of(raised, worker)
            if not end(call, worker) or self._cancelled:
                return
            if call.expired or door is not None:
                results, error = self._outcome(call, results, error)
            call.results, call.error = results, error
            failed, error = error is not None, None  # its traceback and this frame would be a reference cycle
            if worker.cancelling() or _changed(clean):
                self._replace(worker, self._carry_on(call))
                return
            if failed or gate is not None:
                await self._settle(call)
            else:
                self.in_flight -= 1
                finish(call)
        workers.discard(worker)  # not in the done callback: a call that comes before that needs another worker

    def _outcome(self, call: Call, results: list[Any], error: Exception | None) -> tuple[list[Any], Exception | None]:
        """The results and the error of a call that has expired, or has left the door."""
        if call.expired:
            results, error = [], self._expired(call, error)
        try:
            if self._door is not None and (wrong := self._door.leave(call, results, error)) is not None:
                # A function of the limit fails: the service has answered, and is paid, so the call is not made again.
                call.tries, error = self._retry.attempts, wrong
            return results, error
        finally:
            wrong = error = None  # their tracebacks refer to this frame

    async def _refuse(self, call: Call, error: Exception) -> None:
        """The door has refused a call: fail it, without another attempt."""
        call.results, call.error, call.tries = [], error, self._retry.attempts
        await self._settle(call)

    def _error_of(self, raised: BaseException, worker: "asyncio.Task[None]") -> Exception:
        """The error of a call that was cancelled, or that raised what is no Exception."""
        # Python closes the worker with GeneratorExit, too, once the loop has left it behind.
        closed = isinstance(raised, GeneratorExit) and not _runs(worker)
        if self._cancelled or closed:
            raise raised
        return as_error(raised)

    def _replace(self, worker: "asyncio.Task[Any]", work: Coroutine[Any, Any, None]) -> None:
        """Let a new worker do the rest of one whose context a call has changed, or that a call has cancelled."""
        self._workers.discard(worker)
        self._start(work)

    async def _settle(self, call: Call) -> None:
        """A call has ended: retry it, or deliver it."""
        retry = self._retry
        again = call.error is not None and call.tries < retry.attempts and is_retried(call.error, retry)
        if again and (pause := self._pause(call)) is not None:
            try:
                await self._sleep(pause)
            except asyncio.CancelledError:
                if not self._cancelled:  # see `_cut_off`
                    self._replace(cast("asyncio.Task[Any]", asyncio.current_task()), self._carry_on(call))
                raise
            self._put_back(call)
            return
        if self._gate is not None:
            await self._gate(call)
        self.in_flight -= 1
        self._end(call)

    def _put_back(self, call: Call) -> None:
        """Make a call again, or begin with it anew, in front of those that have not been tried: with an order, these
        wait for its result anyway."""
        self._waiting.appendleft(call)
        if self._door is not None:
            self._door.expect()
        self.in_flight -= 1

    def _cut_off(self, worker: "asyncio.Task[Any]", call: Call) -> None:
        """A worker is cancelled before its call begins, as by a timer that the function of an earlier call has left
        behind: let a new worker make it."""
        if not self._cancelled:
            self._put_back(call)
            self._replace(worker, self._work())

    def _keys(self) -> KeysOfCall:
        """What gives the keys of the call that the present task makes."""
        try:
            worker = asyncio.current_task()
        except RuntimeError:  # a thread without a loop
            worker = None
        return partial(keys_of, self._deadlines.made_by(worker), self._origin)

    def _pause(self, call: Call) -> float | None:
        """The seconds until a call that has failed is made again; None where a function of the rules fails, whose error
        becomes that of the call."""
        assert call.error is not None
        try:
            return pause_seconds(self._retry, call.tries, call.error)
        except Exception as raised:
            call.error = raised
            return None

    async def _carry_on(self, call: Call) -> None:
        """Finish a call in a new worker: the call has changed the context of the old one, or it was given up."""
        await self._settle(call)
        await self._work()

    def _abandon(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        """A call ignores its cancellation: fail it, and replace its worker."""
        self._workers.discard(worker)
        call.expired = False
        call.error = self._too_late(call)
        if self._door is not None:
            self._door.leave(call, (), call.error)
        self._abandoned.add(worker)
        try:
            self._abandoned.check()
        except MessageError as error:
            # As if all attempts were used up: another one would be abandoned too, and there are too many already.
            call.error, call.tries = error, self._retry.attempts
        self._start(self._carry_on(call))

    def _expired(self, call: Call, error: Exception | None) -> Exception:
        """The error of a call that has ended after it was cancelled at its timeout. If it raised an error of its own,
        that error is reported instead of the timeout."""
        call.expired = False
        return self._too_late(call) if error is None or isinstance(error, CancelledError) else error

    def _too_late(self, call: Call) -> TimeoutError:
        return too_late(self._timeout, call.tries, self._retry.attempts)

    def cancel(self) -> None:
        """Cancel the calls in flight. Nothing more is delivered."""
        if self._cancelled:
            return
        self._cancelled = True
        self._waiting.clear()
        self._queues.clear()
        self._deadlines.cancel()
        self._abandoned.cancel()
        for worker in tuple(self._workers):
            worker.cancel()
        if self._door is not None:  # behind that: it would let calls of this pool begin
            self._door.close()
        self.in_flight = 0


def _changed(clean: Context) -> bool:
    """Whether context variables have other values than in a clean context."""
    try:
        return copy_context() != clean
    except Exception:  # values that cannot be compared, such as arrays
        return True


def _runs(task: "asyncio.Task[Any]") -> bool:
    """Whether a task is the one that the event loop of this thread runs at this moment."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False

"""Asynchronous calls: a pool of workers that pull from a queue, and results handed on in the order asked for.

Workers are real asyncio tasks, so that `asyncio.timeout` and task groups work in users' functions. They are started as
needed, 1, 2, 4, 8 ... at a time, since a function that never suspends needs only one. A worker whose context variables
a call has changed is replaced by another.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from contextvars import copy_context
from functools import partial
from typing import Any

from ....dsl.error_policy import Retry
from ....dsl.errors import MessageError
from ....dsl.operators import AsyncFlatMap
from ....planner.descriptions import duration
from .cancellation import GRACE_SECONDS, AbandonedCalls, as_error, is_retried, too_late
from .loop_time import LoopTime, LoopTimer, loop_time

Sleep = Callable[[float], Awaitable[None]]
Gate = Callable[["Call"], Awaitable[None]]
"""Holds back the outcome of a call that has ended, to settle in which order calls end: for tests."""


class Call:
    """One call: its arguments, and what came of it. `tries` counts how often it was made."""

    __slots__ = ("deadline", "done", "error", "expired", "item", "key", "results", "tries", "value")

    def __init__(self, key: bytes | None, value: Any, item: Any) -> None:
        self.key = key
        self.value = value
        self.item = item
        self.done = self.expired = False
        self.deadline = 0.0
        self.tries = 0
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def take_error(self) -> BaseException:
        """The error, which the call forgets: its traceback will refer to the call, and both would stay until the
        garbage collector finds them."""
        assert self.error is not None
        error, self.error = self.error, None
        return error


class Deadlines:
    """Cancels the worker of a call that takes longer than `timeout` seconds, and notes in the call that it has expired.
    One that has not ended some time later is given up: `give_up(call, worker)`. Time in which the loop stood still does
    not count.

    One timer serves all: calls have the same timeout, so the oldest one expires first. `asyncio.timeout` would set one
    for each call, which takes longer than all else that is done for it.
    """

    __slots__ = ("_clock", "_expired", "_give_up", "_running", "_timeout", "_timer")

    def __init__(self, timeout: float, give_up: Callable[[Call, "asyncio.Task[Any]"], None]) -> None:
        self._timeout = timeout
        self._give_up = give_up
        self._running: dict[Call, asyncio.Task[Any]] = {}
        self._expired: dict[asyncio.Task[Any], LoopTimer] = {}
        self._timer: LoopTimer | None = None
        self._clock: LoopTime | None = None

    def begin(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        clock = self._clock
        if clock is None:
            clock = self._clock = loop_time(worker.get_loop())
        call.deadline = clock.time() + self._timeout
        call.tries += 1
        self._running[call] = worker
        if self._timer is None:
            self._timer = clock.call_at(call.deadline, self._fire)

    def end(self, call: Call, worker: "asyncio.Task[Any]") -> bool:
        """The call has ended, in whatever way; whether it had not been given up."""
        running = self._running
        if running.get(call) is not worker:
            handle = self._expired.pop(worker, None)
            if handle is None:
                return False
            handle.cancel()
            worker.uncancel()
            return True
        del running[call]
        # On another loop the timer stays for the calls to come: to set one for each takes longer than a short call.
        if not running and self._timer is not None and self._clock is not None and self._clock.virtual:
            self._timer.cancel()
            self._timer = None
        return True

    def _fire(self) -> None:
        self._timer = None
        clock = self._clock
        while self._running and clock is not None:
            call, worker = next(iter(self._running.items()))
            if clock.until(call.deadline):
                self._timer = clock.call_at(call.deadline, self._fire)
                return
            del self._running[call]
            call.expired = True
            worker.cancel()
            self._expired[worker] = clock.call_later(GRACE_SECONDS, partial(self._abandon, call, worker))

    def _abandon(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        del self._expired[worker]
        self._give_up(call, worker)

    def cancel(self) -> None:
        for handle in (self._timer, *self._expired.values()):
            if handle is not None:
                handle.cancel()


class CallPool:
    """The calls of one asynchronous operator in one task: at most `max_in_flight` under way at once.

    `deliver(call)` is called in the event loop for each call that has ended, in the operator's order.
    """

    def __init__(
        self,
        operator: AsyncFlatMap,
        deliver: Callable[[Call], None],
        sleep: Sleep = asyncio.sleep,
        gate: Gate | None = None,
    ) -> None:
        self._fn: Callable[[Any], Awaitable[Iterable[Any]]] = operator.fn
        self._limit = operator.max_in_flight
        self._retry = operator.retry or Retry(attempts=1)
        self._order = _QUEUE_KEYS[operator.order]
        self._deliver = deliver
        self._sleep = sleep
        self._gate = gate
        self._waiting: deque[Call] = deque()
        self._queues: dict[Any, deque[Call]] = {}
        self._workers: set[asyncio.Task[Any]] = set()
        self._deadlines = Deadlines(operator.timeout / 1000, self._abandon)
        self._operator = operator
        self._abandoned = AbandonedCalls(operator.max_in_flight, operator.label, operator.origin)
        self._clean = copy_context()
        self._cancelled = False
        self.outstanding = 0
        self.in_flight = 0

    @property
    def capacity(self) -> int:
        """How many more calls may be submitted now without piling up."""
        return max(0, 2 * self._limit - self.outstanding)

    def submit(self, call: Call) -> None:
        self.outstanding += 1
        queue_key = None if self._order is None else self._order(call)
        if queue_key is not None:
            self._queues.setdefault(queue_key, deque()).append(call)
        self._waiting.append(call)
        # A worker that is not at a call yet will see to it; if all are, one more.
        if self.in_flight == len(self._workers) < self._limit:
            self._start(self._work())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # A copy of the context: what a call changes in its own is not to be seen by others.
        worker = asyncio.get_running_loop().create_task(work, context=self._clean.copy())
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        waiting, workers, limit, fn = self._waiting, self._workers, self._limit, self._fn
        begin, end, gate, finish, clean = self._deadlines.begin, self._deadlines.end, self._gate, self._end, self._clean
        # Let this worker's siblings be started only if work is left after one turn of the loop.
        while waiting:
            call = waiting.popleft()
            if waiting and len(workers) < limit:
                self._start(self._work())
            self.in_flight += 1
            results: list[Any] = []
            error: Exception | None = None
            begin(call, worker)
            # All in one coroutine: another one for each call would take as long as all that is done here.
            try:
                results = list(await fn(call.value))
            except Exception as raised:
                error = raised
            except BaseException as raised:
                if self._cancelled:
                    raise
                error = as_error(raised)
            if not end(call, worker) or self._cancelled:
                return
            if call.expired:
                call.expired = False
                results, error = [], self._expired(call, error)
            call.results, call.error = results, error
            # The traceback of an error refers to this frame, which would keep it until the garbage collector comes.
            failed, error = error is not None, None
            try:
                marked = worker.cancelling() or copy_context() != clean
            except Exception:  # values that cannot be compared, such as arrays
                marked = True
            if marked:
                workers.discard(worker)
                self._start(self._carry_on(call))
                return
            if failed or gate is not None:
                await self._settle(call)
            else:
                self.in_flight -= 1
                finish(call)
        # At once: a call submitted before the loop takes note of this worker's end must start another.
        workers.discard(worker)

    async def _settle(self, call: Call) -> None:
        """A call has ended: make it again, or hand it on."""
        retry = self._retry
        if call.error is not None and call.tries < retry.attempts and is_retried(call.error, retry):
            await self._sleep(retry.pause_ms(call.tries) / 1000)
            self._waiting.appendleft(call)
            self.in_flight -= 1
            return
        if self._gate is not None:
            await self._gate(call)
        self.in_flight -= 1
        self._end(call)

    async def _carry_on(self, call: Call) -> None:
        """Take over a call that has ended, from a worker that is not fit for others any more."""
        await self._settle(call)
        await self._work()

    def _abandon(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        """A call does not heed that it was cancelled: it has failed, and its worker is none any more."""
        self._workers.discard(worker)
        call.expired = False
        call.error = self._too_late(call)
        self._abandoned.add(worker)
        try:
            self._abandoned.check()
        except MessageError as error:
            call.error, call.tries = error, self._retry.attempts
        self._start(self._carry_on(call))

    def _expired(self, call: Call, error: Exception | None) -> Exception:
        """The error of a call that has ended once it was cancelled at its timeout: what it has raised instead says
        more."""
        return self._too_late(call) if error is None or isinstance(error, CancelledError) else error

    def _too_late(self, call: Call) -> TimeoutError:
        operator = self._operator
        table = operator.remote
        if table is None:
            return too_late(operator.timeout, call.tries, self._retry.attempts)
        tries = f"{table.retry.attempts} attempts of {duration(table.timeout_ms)} each"
        return TimeoutError(f"no answer of {table.name} within {duration(operator.timeout)}, the time for {tries}")

    def _end(self, call: Call) -> None:
        queue_key = None if self._order is None else self._order(call)
        if queue_key is None:
            self._hand_on(call)
            return
        call.done = True
        queue = self._queues[queue_key]
        while queue and queue[0].done:
            self._hand_on(queue.popleft())
        if not queue:
            del self._queues[queue_key]

    def _hand_on(self, call: Call) -> None:
        self.outstanding -= 1
        self._deliver(call)

    def cancel(self) -> None:
        """Give up the calls under way; nothing more is delivered."""
        if self._cancelled:
            return
        self._cancelled = True
        self._waiting.clear()
        self._deadlines.cancel()
        self._abandoned.cancel()
        for worker in tuple(self._workers):
            worker.cancel()
        self.in_flight = 0


class TaskCalls:
    """The asynchronous calls of one task: those of all its `pools`, by operator."""

    def __init__(self, pools: Mapping[str, CallPool]) -> None:
        self._pools = pools

    @property
    def capacity(self) -> int:
        """How many messages may be fed now."""
        return min((pool.capacity for pool in self._pools.values()), default=1 << 30)

    @property
    def in_flight(self) -> int:
        """How many calls are in flight."""
        return sum(pool.in_flight for pool in self._pools.values())

    def cancel(self) -> None:
        """Cancel the calls in flight."""
        for pool in self._pools.values():
            pool.cancel()


def _one_queue(_: Call) -> str:
    return "task"


def _queue_of_key(call: Call) -> bytes | None:
    return call.key


_QUEUE_KEYS: dict[str, Callable[[Call], Any] | None] = {"none": None, "input": _one_queue, "key": _queue_of_key}
"""By order: the queue of a call. Calls of one queue are handed on in the order they were submitted; None: as they
end."""

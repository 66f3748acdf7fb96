"""Asynchronous calls: a pool of workers that pull from a queue, and results handed on in the order asked for.

Workers are real asyncio tasks, so that `asyncio.timeout` and task groups work in users' functions. They are started as
needed, 1, 2, 4, 8 ... at a time, since a function that never suspends needs only one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from ...dsl.operators import AsyncFlatMap
from ...dsl.policy import Retry

Sleep = Callable[[float], Awaitable[None]]
Gate = Callable[["Call"], Awaitable[None]]
"""Holds back the outcome of a call that has ended, to settle in which order calls end: for tests."""


class Call:
    """One call: its arguments, and what came of it."""

    __slots__ = ("deadline", "done", "error", "expired", "item", "key", "results", "value")

    def __init__(self, key: bytes | None, value: Any, item: Any) -> None:
        self.key = key
        self.value = value
        self.item = item
        self.done = self.expired = False
        self.deadline = 0.0
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

    One alarm serves all: calls have the same timeout, so the oldest one expires first. `asyncio.timeout` would set one
    for each call, which takes longer than all else that is done for it.
    """

    __slots__ = ("_alarm", "_now", "_running", "_timeout")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._running: dict[Call, asyncio.Task[Any]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._now: Callable[[], float] | None = None

    def begin(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        if self._now is None:
            self._now = worker.get_loop().time
        call.deadline = self._now() + self._timeout
        self._running[call] = worker
        if self._alarm is None:
            self._alarm = worker.get_loop().call_at(call.deadline, self._ring)

    def end(self, call: Call, worker: "asyncio.Task[Any]") -> None:
        """The call has ended, in whatever way."""
        running = self._running
        running.pop(call, None)
        if call.expired:
            call.expired = False
            worker.uncancel()
        if not running and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        while self._running:
            call, worker = next(iter(self._running.items()))
            loop = worker.get_loop()
            if call.deadline > loop.time():
                self._alarm = loop.call_at(call.deadline, self._ring)
                return
            del self._running[call]
            call.expired = True
            worker.cancel()


class Pool:
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
        self._lane = _LANES[operator.order]
        self._deliver = deliver
        self._sleep = sleep
        self._gate = gate
        self._waiting: deque[Call] = deque()
        self._lanes: dict[Any, deque[Call]] = {}
        self._workers: set[asyncio.Task[Any]] = set()
        self._deadlines = Deadlines(operator.timeout / 1000)
        self.outstanding = 0
        self.in_flight = 0

    @property
    def room(self) -> int:
        """How many more calls may be submitted now without piling up."""
        return max(0, 2 * self._limit - self.outstanding)

    def submit(self, call: Call) -> None:
        self.outstanding += 1
        lane = None if self._lane is None else self._lane(call)
        if lane is not None:
            self._lanes.setdefault(lane, deque()).append(call)
        self._waiting.append(call)
        # A worker that is not at a call yet will see to it; if all are, one more.
        if self.in_flight == len(self._workers) < self._limit:
            self._start()

    def _start(self) -> None:
        worker = asyncio.get_running_loop().create_task(self._work())
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        waiting, workers, limit, retry, fn = self._waiting, self._workers, self._limit, self._retry, self._fn
        begin, end, gate, finish = self._deadlines.begin, self._deadlines.end, self._gate, self._end
        # Let this worker's siblings be started only if work is left after one turn of the loop.
        while waiting:
            call = waiting.popleft()
            if waiting and len(workers) < limit:
                self._start()
            self.in_flight += 1
            try:
                # All in one coroutine: another one for each call would take as long as all that is done here.
                for repeat in count(1):
                    begin(call, worker)
                    try:
                        call.results = list(await fn(call.value))
                        call.error = None
                    except Exception as error:
                        call.error = error
                    except asyncio.CancelledError as error:
                        # Somebody else's wish comes first: that this worker stops.
                        if worker.cancelling() > call.expired:
                            raise
                        call.error = TimeoutError() if call.expired else error
                    finally:
                        end(call, worker)
                    if call.error is None or repeat == retry.attempts or not isinstance(call.error, retry.on):
                        break
                    await self._sleep(retry.pause_ms(repeat) / 1000)
                if gate is not None:
                    await gate(call)
            finally:
                self.in_flight -= 1
            finish(call)
        # At once: a call submitted before the loop takes note of this worker's end must start another.
        workers.discard(worker)

    def _end(self, call: Call) -> None:
        lane = None if self._lane is None else self._lane(call)
        if lane is None:
            self._hand_on(call)
            return
        call.done = True
        queue = self._lanes[lane]
        while queue and queue[0].done:
            self._hand_on(queue.popleft())
        if not queue:
            del self._lanes[lane]

    def _hand_on(self, call: Call) -> None:
        self.outstanding -= 1
        self._deliver(call)

    def cancel(self) -> None:
        """Give up the calls under way; nothing more is delivered."""
        self._waiting.clear()
        for worker in tuple(self._workers):
            worker.cancel()


def _one_lane(_: Call) -> str:
    return "task"


def _key_lane(call: Call) -> bytes | None:
    return call.key


_LANES: dict[str, Callable[[Call], Any] | None] = {"none": None, "input": _one_lane, "key": _key_lane}
"""Calls of one lane are handed on in the order they were submitted; None: as they end."""

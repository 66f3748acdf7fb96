"""The deadlines of calls: when each is cancelled, and when it is given up."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from .call import Call
from .cancellation import GRACE_SECONDS
from .loop_time import LoopTime, LoopTimer, loop_time


class Deadlines:
    """Cancels the worker of a call that takes longer than `timeout` seconds, and marks the call as expired. If the call
    has not ended GRACE_SECONDS later, `give_up(call, worker)` is called. Time in which the loop was blocked does not
    count.

    One timer serves all calls: they have the same timeout, so the oldest one expires first. `asyncio.timeout` would set
    a timer for each call, which takes longer than all other work on a call.
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
        """A worker begins a call: set its deadline, and count the try."""
        if (clock := self._clock) is None:
            clock = self._clock = loop_time(worker.get_loop())
        call.deadline = clock.time() + self._timeout
        call.tries += 1
        self._running[call] = worker
        if self._timer is None:
            self._timer = clock.call_at(call.deadline, self._fire)

    def end(self, call: Call, worker: "asyncio.Task[Any]") -> bool:
        """The call has ended. Returns False if it had been given up before."""
        running = self._running
        if running.get(call) is not worker:
            handle = self._expired.pop(worker, None)
            if handle is None:
                return False
            handle.cancel()
            worker.uncancel()
            return True
        del running[call]
        # On a real loop the timer stays for later calls: setting one for each call takes longer than a short call.
        if not running and self._timer is not None and self._clock is not None and self._clock.virtual:
            self._timer.cancel()
            self._timer = None
        return True

    def made_by(self, worker: "asyncio.Task[Any] | None") -> Call | None:
        """The call that a task makes now, if its time is not over."""
        # From the newest on: the call that asks has just begun, and thousands may be in flight.
        return next((call for call, task in reversed(self._running.items()) if task is worker), None)

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
        """Cancel all timers. No deadline passes after that."""
        for handle in (self._timer, *self._expired.values()):
            if handle is not None:
                handle.cancel()

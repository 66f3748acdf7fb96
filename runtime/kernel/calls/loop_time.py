"""The time in which an event loop has run. Timeouts of users' calls are measured by it.

A loop is blocked by a synchronous call, such as that of a client that waits for a broker, and while the process is
stopped. Calls make no progress meanwhile, so this time does not count for their timeouts. A busy loop is blocked too,
for a moment at a time. Such moments count, or timeouts would grow with the load.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

PULSE_SECONDS = 0.02
"""The period of the timer that detects a blocked loop: it fires late."""
COUNTED_SECONDS = 0.25
"""A time in which a loop is blocked counts if it is no longer than this. A longer one does not count at all, since a
call may have a timeout that is shorter than this."""

# Far more than the rounding of sums of seconds, far less than 1 ms, the shortest timeout.
_NEARLY = 1e-6


class LoopTimer:
    """A function that will be called once a loop has run until a time of its `LoopTime`, in seconds."""

    __slots__ = ("_call", "_clock", "_handle", "_postponed", "_when")

    def __init__(self, clock: "LoopTime", when: float, call: Callable[[], None]) -> None:
        self._clock = clock
        self._when = when
        self._call = call
        self._postponed = False
        clock.timers += 1
        self._handle = self._set()

    def _set(self) -> asyncio.TimerHandle:
        return self._clock.loop.call_later(self._clock.until(self._when), self._fire)

    def _fire(self) -> None:
        if self._clock.until(self._when):  # the loop was blocked meanwhile
            self._handle = self._set()
            return
        if self._clock.just_unblocked and not self._postponed:
            # The answer that the call waits for may have arrived while the loop was blocked: let it be read first.
            self._postponed = True
            self._handle = self._clock.loop.call_later(PULSE_SECONDS, self._fire)
            return
        self.cancel()
        self._call()

    def cancel(self) -> None:
        """Do not call the function. No effect if it was called."""
        if not self._handle.cancelled():
            self._handle.cancel()
            self._clock.timers -= 1


class LoopTime:
    """The time of a loop, in seconds, without the time in which it was blocked while there were timers.

    A virtual loop, which is never blocked, has an attribute `pulse` of infinity.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timers = 0
        self._pulse: float = getattr(loop, "pulse", PULSE_SECONDS)
        self.virtual = self._pulse == float("inf")
        self._blocked_for = 0.0
        self._unblocked_at = float("-inf")
        self._next = float("inf")

    def time(self) -> float:
        """The time in which the loop has run, from an arbitrary start. Once a pulse is long overdue, it is the time at
        which the pulse was due."""
        now = self.loop.time()
        return (self._next if now > self._next + COUNTED_SECONDS else now) - self._blocked_for

    @property
    def just_unblocked(self) -> bool:
        """Whether the loop was blocked until a moment ago, for longer than COUNTED_SECONDS."""
        now = self.loop.time()
        return now > self._next + COUNTED_SECONDS or now < self._unblocked_at + PULSE_SECONDS

    def until(self, when: float) -> float:
        """The seconds until a time; 0 if it has passed, or nearly, since sums of floats are not exact."""
        left = when - self.time()
        return left if left > _NEARLY else 0.0

    def call_at(self, when: float, call: Callable[[], None]) -> LoopTimer:
        """Call a function once this time is `when`, in seconds. It is late by as long as the loop is busy then, and by
        a pulse if the loop was blocked, so that answers that arrived meanwhile are read first."""
        # The pulse beats only while there are timers, so that a loop without them can sleep.
        if self._next == float("inf") and not self.virtual:
            self._beat()
        return LoopTimer(self, when, call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> LoopTimer:
        """Call a function once the loop has run for so long."""
        return self.call_at(self.time() + seconds, call)

    def _beat(self) -> None:
        """Check that the loop is not blocked, as long as there are timers."""
        now = self.loop.time()
        if (late := now - self._next) > COUNTED_SECONDS:
            self._blocked_for += late
            self._unblocked_at = now
        if self._next != float("inf") and not self.timers:
            self._next = float("inf")
            return
        self._next = now + self._pulse
        self.loop.call_at(self._next, self._beat)


_OF_LOOPS: "WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTime]" = WeakKeyDictionary()


def loop_time(loop: asyncio.AbstractEventLoop) -> LoopTime:
    """The one `LoopTime` of an event loop, made by the first call and kept as long as the loop."""
    clock = _OF_LOOPS.get(loop)
    if clock is None:
        clock = _OF_LOOPS[loop] = LoopTime(loop)
    return clock

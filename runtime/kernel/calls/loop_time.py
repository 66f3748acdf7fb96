"""The time in which an event loop has run: what timeouts of users' calls are measured by.

A loop stands still while something blocks it, such as a client that waits for a broker, and while the process is
stopped. Calls cannot go on meanwhile, so that this time is not counted against them. A loop that works stands still
too, for a moment at a time: such moments count, or timeouts would become longer the more there is to do.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

PULSE_SECONDS = 0.02
"""A loop that stands still is noticed by a timer that is late, which is set anew so often."""
COUNTED_SECONDS = 0.25
"""Of each time in which a loop stands still no more than this is counted."""

_HAIR = 1e-6


class LoopTimer:
    """A function that will be called once a loop has run until a time of its `LoopTime`, in seconds."""

    __slots__ = ("_call", "_clock", "_handle", "_spared", "_when")

    def __init__(self, clock: "LoopTime", when: float, call: Callable[[], None]) -> None:
        self._clock = clock
        self._when = when
        self._call = call
        self._spared = False
        clock.timers += 1
        self._handle = self._set()

    def _set(self) -> asyncio.TimerHandle:
        return self._clock.loop.call_later(self._clock.until(self._when), self._fire)

    def _fire(self) -> None:
        if self._clock.until(self._when):  # the loop stood still meanwhile
            self._handle = self._set()
            return
        if self._clock.just_back and not self._spared:
            # What the call waits for may have come meanwhile: the loop has to take it in first.
            self._spared = True
            self._handle = self._clock.loop.call_later(PULSE_SECONDS, self._fire)
            return
        self.cancel()
        self._call()

    def cancel(self) -> None:
        """Do not call the function, if that has not happened yet."""
        if not self._handle.cancelled():
            self._handle.cancel()
            self._clock.timers -= 1


class LoopTime:
    """The time of a loop, in seconds, without that in which it stood still while there were timers.

    Virtual loops say by an attribute `pulse` of infinity that nothing ever keeps them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timers = 0
        self._pulse: float = getattr(loop, "pulse", PULSE_SECONDS)
        self.virtual = self._pulse == float("inf")
        self._stood = 0.0
        self._back = float("-inf")
        self._next = float("inf")

    def time(self) -> float:
        """The time in which the loop has run; the start is arbitrary. A pulse that is long overdue stops it."""
        now, last = self.loop.time(), self._next + COUNTED_SECONDS
        return (last if last < now else now) - self._stood

    @property
    def just_back(self) -> bool:
        """Whether the loop stood still until a moment ago, for longer than is counted."""
        now = self.loop.time()
        return now > self._next + COUNTED_SECONDS or now < self._back + PULSE_SECONDS

    def until(self, when: float) -> float:
        """How many seconds it will take to a time; 0 where it has come, or nearly: floats are added up for it."""
        left = when - self.time()
        return left if left > _HAIR else 0.0

    def call_at(self, when: float, call: Callable[[], None]) -> LoopTimer:
        """Call a function at a time."""
        if self._next == float("inf") and not self.virtual:
            self._beat()
        return LoopTimer(self, when, call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> LoopTimer:
        """Call a function once the loop has run for so long."""
        return self.call_at(self.time() + seconds, call)

    def _beat(self) -> None:
        """Feel the pulse as long as there are timers."""
        now = self.loop.time()
        if (late := now - self._next) > COUNTED_SECONDS:
            self._stood += late - COUNTED_SECONDS
            self._back = now
        if self._next != float("inf") and not self.timers:
            self._next = float("inf")
            return
        self._next = now + self._pulse
        self.loop.call_at(self._next, self._beat)


_OF_LOOPS: "WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTime]" = WeakKeyDictionary()


def loop_time(loop: asyncio.AbstractEventLoop) -> LoopTime:
    """The time of a loop."""
    clock = _OF_LOOPS.get(loop)
    if clock is None:
        clock = _OF_LOOPS[loop] = LoopTime(loop)
    return clock

"""Virtual time: an event loop that never blocks, and whose clock moves only with `jump`."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ..kernel.calls.function_pools import loop_pools
from ..process.machine import Machine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


# Its multiples lie further apart, modulo 1, than those of any other number: each draw falls into the widest gap.
_GOLDEN_RATIO = 0.6180339887498949


class _Idle(selectors.SelectSelector):
    """A selector without events. Where the loop would wait, since no callback is ready, it calls `on_idle` instead."""

    def __init__(self) -> None:
        super().__init__()
        self.on_idle: Callable[[float | None], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.on_idle(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks that are ready, in the order asyncio gives them; its time stands still until `jump`.

    A function for an executor (`asyncio.to_thread`), or in a pool (`in_threads`), runs at once in this thread. Sockets
    and pipes are never ready.
    """

    pulse = math.inf
    """Callbacks take no virtual time, so this loop is never blocked."""

    def __init__(self, start: int = 0) -> None:
        """A loop whose clock begins at `start`, in ms since epoch."""
        self.machine = Machine(clock=self.time, wall=lambda: start + self.millis, random=self._random)
        self._micros = 0
        self._drawn = 0.0
        self._next_timer: float | None = None
        self._waiter: asyncio.Future[None] | None = None
        idle = _Idle()
        super().__init__(idle)
        idle.on_idle = self._on_idle
        loop_pools(self, at_once=True)

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._micros / 1e6

    @property
    def millis(self) -> int:
        """Milliseconds since the loop was made."""
        return self._micros // 1000

    def _random(self) -> float:
        """Numbers from 0 up to 1 that are far from each other, the same in each run."""
        self._drawn = (self._drawn + _GOLDEN_RATIO) % 1
        return self._drawn

    async def quiet(self) -> None:
        """Return once nothing is ready to run at this time."""
        self._waiter = self.create_future()
        await self._waiter

    def has_timer(self, until: float = math.inf) -> bool:
        """Whether there is a timer that is not past `until`. To be called after `quiet`."""
        due = self._due()
        return due is not None and due <= until * 1e6 + 1

    def run_waiting(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; time moves as far as it waits. Raises UsageError where it waits for something
        other than time."""

        async def waited() -> T:
            task = self.create_task(work)
            await self.quiet()
            while not task.done():
                if not self.jump():
                    task.cancel()
                    await self.quiet()
                    wrong = "a method waits for an event that cannot happen under virtual time"
                    remedy = "check it for a wait for a socket, a thread or an event"
                    raise UsageError(explain(wrong, "one that ends by itself", remedy))
                await self.quiet()
            return task.result()

        return self.run_until_complete(waited())

    def _due(self) -> int | None:
        """When the next timer is due, in microseconds."""
        return None if self._next_timer is None else self._micros + max(1, math.ceil(self._next_timer * 1e6))

    def jump(self, until: float = math.inf) -> bool:
        """Move to the next timer, not past `until`; False if there is none by then. To be called after `quiet`."""
        due = self._due()
        # The time of a timer is a sum of floats, so it may be slightly after the intended time.
        if due is None or due > until * 1e6 + 1:
            self._move_to(until)
            return False
        self._micros = due
        return True

    def _move_to(self, until: float) -> None:
        if until != math.inf:
            self._micros = max(self._micros, round(until * 1e6))

    def _on_idle(self, next_timer: float | None) -> None:
        self._next_timer = next_timer
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            raise RuntimeError("nothing is left to run, and `quiet` is not awaited: a deadlock under virtual time")
        waiter.set_result(None)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call the function at once, in this thread: its result is never late by real time."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def __del__(self) -> None:
        # A driver that was not closed holds only a pair of sockets: not worth a ResourceWarning.
        if not self.is_closed():
            self.close()

"""The pools in which plain functions of the user's are called: one for each in an event loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from ....dsl.pooled_function import PooledFunction, give_pools, pools_of
from .call_keys import offer_keys, present_keys
from .threads import CallThreads

CLOSE_SECONDS = 1.0
"""How long the end of a pool waits for calls that are under way."""
REST_SECONDS = 0.002

_log = logging.getLogger(__name__)


class PoolPlaces:
    """The places of a pool: at most `size` calls are begun at a time, the others wait, first come, first served."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        """Calls that run, also those that were given up and have not returned, and places that are kept for calls which
        are about to begin."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place, which `leave` gives back."""
        if self.taken < self.size and not self._waiting:
            self.taken += 1
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back, to the call that has waited longest."""
        self.taken -= 1
        while self._waiting and self.taken < self.size:
            ready = self._waiting.popleft()
            if not ready.done():
                self.taken += 1
                ready.set_result(None)


class FunctionPool:
    """The threads in which the calls of one plain function are made."""

    def __init__(self, pooled: PooledFunction[..., Any]) -> None:
        self.users = 0
        self.places = PoolPlaces(pooled.size)
        self.kept: int = 0
        """Places that a door has taken for calls which begin now."""
        self._pooled = pooled
        self._threads = CallThreads(pooled.size)

    async def call(self, call: Callable[[], Any]) -> Any:
        """Make a call, and return its result. Where that is cancelled, its thread is left to itself, and its place is
        taken until it returns."""
        if self.kept:
            self.kept -= 1
        else:
            await self.places.enter()
        loop = asyncio.get_running_loop()
        context = copy_context()
        context.run(offer_keys, present_keys())

        def left(_: "Future[Any]") -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a place
                loop.call_soon_threadsafe(self.places.leave)

        try:
            future = self._threads.submit(context.run, call)
        except BaseException:  # the pool has ended
            self.places.leave()
            raise
        future.add_done_callback(left)
        return await asyncio.wrap_future(future)

    async def end(self) -> None:
        """Wait for calls that are under way, CLOSE_SECONDS at most, and end the threads."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSE_SECONDS
        self._threads.shutdown(wait=False)
        while self._threads.open and loop.time() < until:
            await asyncio.sleep(REST_SECONDS)
        if self._threads.open:
            _log.warning("%r: calls that have not returned are left behind: %d", self._pooled, self._threads.open)


class DirectPool:
    """Makes calls at once, one at a time: under virtual time, which stands still meanwhile."""

    def __init__(self) -> None:
        self.users = 0

    async def call(self, call: Callable[[], Any]) -> Any:
        """Make a call, and return its result."""
        context = copy_context()
        context.run(offer_keys, present_keys())
        return context.run(call)

    async def end(self) -> None:
        """Nothing is under way between two calls."""


class LoopPools:
    """The pools of an event loop, by function. With `at_once` calls are made in the thread of the loop."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._pools: dict[PooledFunction[..., Any], FunctionPool | DirectPool] = {}

    async def open(self, pooled: PooledFunction[..., Any]) -> None:
        """Make the pool of a function, for one more user of it."""
        self._pool(pooled).users += 1

    async def close(self, pooled: PooledFunction[..., Any]) -> None:
        """One user of a function is done; with the last one its pool ends."""
        pool = self._pools.get(pooled)
        if pool is None:
            return
        pool.users -= 1
        if pool.users <= 0:
            del self._pools[pooled]
            await pool.end()

    async def call(self, pooled: PooledFunction[..., Any], call: Callable[[], Any]) -> Any:
        """Make a call in the pool of a function, which is made if it is not there."""
        return await self._pool(pooled).call(call)

    def waited_for(self, pooled: PooledFunction[..., Any]) -> FunctionPool | None:
        """The pool whose places calls of a function wait for; None where none waits."""
        pool = self._pool(pooled)
        return pool if isinstance(pool, FunctionPool) else None

    async def end(self) -> None:
        """End all pools, side by side."""
        pools, self._pools = self._pools, {}
        await asyncio.gather(*(pool.end() for pool in pools.values()))

    def _pool(self, pooled: PooledFunction[..., Any]) -> FunctionPool | DirectPool:
        if (pool := self._pools.get(pooled)) is None:
            pool = self._pools[pooled] = DirectPool() if self._at_once else FunctionPool(pooled)
        return pool


def loop_pools(loop: asyncio.AbstractEventLoop, *, at_once: bool = False) -> LoopPools:
    """The pools of an event loop, which has its own from now on."""
    pools = pools_of(loop)
    if not isinstance(pools, LoopPools):
        pools = LoopPools(at_once=at_once)
        give_pools(loop, pools)
    return pools

"""The pools in which plain functions of the user's are called: one for each in an event loop."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from ....dsl.pooled_function import PooledFunction, give_pools, pools_of
from ...process.machine import THIS_MACHINE, Machine
from .permits import CallPermits
from .pool_work import PoolWork, ProcessWork, ThreadWork
from .threads import CallThreads

# A thread cannot be ended, and a call that was given up has no result that counts: to wait longer gains nothing.
CLOSE_SECONDS = 1.0
"""How long the end of a pool waits for calls in flight."""
# A thread tells no event loop that it ends; to look more often would take the time that its last calls need.
REST_SECONDS = 0.002
"""Pause between two looks at whether these have ended."""

_log = logging.getLogger(__name__)


class PoolUse(NamedTuple):
    """How the pools of the functions of a name are used: of so many `permits`, one for each thread or process, some are
    `taken`, and so many calls are `waiting` for one."""

    function: str
    permits: int
    taken: int
    waiting: int


class PoolPermits(CallPermits):
    """The `size` permits of a pool. One is taken by a call that runs, by one that was given up and has not returned,
    and by one that a door has let in and that is about to begin."""

    def __init__(self, size: int) -> None:
        super().__init__(lambda: size)
        self.size = size
        self.expected = 0
        """Calls of doors that were submitted and have not begun."""

    @property
    def wanted(self) -> int:
        """How many permits are taken, or will be."""
        return self.taken + self.expected


class FunctionPool:
    """The threads in which the calls of one plain function are made, or wait for the processes that make them."""

    def __init__(self, pooled: PooledFunction[..., Any], work: PoolWork) -> None:
        self.users = 0
        self.permits = PoolPermits(pooled.size)
        self.kept: int = 0
        """How many permits a door has taken for calls which begin now."""
        self._pooled = pooled
        self._work = work
        self._threads = CallThreads(pooled.size)
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make ready what the threads need, in all of them at once. Raises the first error."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.ensure_future(self._prepared())
            self._opening.add_done_callback(_retrieve)
        # Others may wait for the same opening: one caller that is cancelled must not end it for them.
        await asyncio.shield(self._opening)

    async def _prepared(self) -> None:
        preparing = [self._threads.submit(self._work.prepare) for _ in range(self.permits.size)]
        ended = await asyncio.gather(*map(asyncio.wrap_future, preparing), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Make a call, and return its result. If this is cancelled, a process that makes the call is ended; a thread
        runs on, and keeps its permit until it returns."""
        # The door has taken the permit already, before the timeout began: to enter again would wait for one that
        # this call itself holds.
        if self.kept:
            self.kept -= 1
        else:
            await self.permits.enter()
        loop = asyncio.get_running_loop()

        def left(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a permit
                loop.call_soon_threadsafe(self.permits.leave)

        # Not the future of the thread: that is done only once the thread is free again, which for a process is after it
        # was replaced.
        outcome: Future[Any] = Future()
        try:
            if self._opening is None or not self._opening.done():
                await self.open()
            job = self._work.job(args, named)
            self._threads.submit(job.run, outcome).add_done_callback(left)
        except BaseException:
            self.permits.leave()
            raise
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            job.cancel()
            raise

    def wind_down(self) -> None:
        """The pool is about to end."""
        self._work.wind_down()

    async def end(self) -> None:
        """Wait for calls in flight, CLOSE_SECONDS at most, and end the threads and processes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSE_SECONDS
        self._threads.shutdown(wait=False)
        self._work.dismiss()
        try:
            while (self._threads.open or not self._work.ended()) and loop.time() < until:
                await asyncio.sleep(REST_SECONDS)
        finally:  # also where the end of the run waits no longer
            self._work.kill()
        while self._threads.open and loop.time() < until:
            await asyncio.sleep(REST_SECONDS)
        if self._threads.open and self._pooled.kind == "threads":
            _log.warning("%r: calls that have not returned are left behind: %d", self._pooled, self._threads.open)


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()  # or asyncio logs that it was never retrieved


class DirectPool:
    """The pool of a function under virtual time, which stands still during a call: it makes calls one at a time."""

    def __init__(self, work: PoolWork, machine: Machine = THIS_MACHINE) -> None:
        self.users = 0
        self._work = work
        self._machine = machine

    async def open(self) -> None:
        """Make ready what one call needs."""
        self._work.prepare()

    async def call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Make a call, and return its result."""
        outcome: Future[Any] = Future()
        self._work.job(args, named).run(outcome)
        return outcome.result()

    def wind_down(self) -> None:
        """The pool is about to end."""
        self._work.wind_down()

    async def end(self) -> None:
        """End what has been made ready, which has CLOSE_SECONDS to end by itself."""
        self._work.dismiss()
        self._wait()
        self._work.kill()

    def _wait(self) -> None:
        until = self._machine.clock() + CLOSE_SECONDS  # not by the loop: its time stands still
        while not self._work.ended() and self._machine.clock() < until:
            self._machine.sleep(REST_SECONDS)


class LoopPools:
    """The pools of an event loop, by function. With `at_once` calls are made in the thread of the loop."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._pools: dict[PooledFunction[..., Any], FunctionPool | DirectPool] = {}
        self._holders = 0

    def hold(self) -> None:
        """Count one more run or executor that makes calls in the loop, until `release`."""
        self._holders += 1

    async def release(self) -> None:
        """Count one less. After the last one the pools end that were made by calls alone, and never opened."""
        self._holders -= 1
        if self._holders <= 0:
            unopened = [pooled for pooled, pool in self._pools.items() if pool.users <= 0]
            await asyncio.gather(*(self._pools.pop(pooled).end() for pooled in unopened))

    async def open(self, pooled: PooledFunction[..., Any]) -> None:
        """Make the pool of a function, for one more user of it."""
        pool = self._pool(pooled)
        pool.users += 1
        try:
            await pool.open()
        except BaseException:
            await self.close(pooled)
            raise

    def wind_down(self) -> None:
        """A run is about to cancel its calls, and to close its functions. Pools without another user start no process
        in the place of one that a cancellation ends."""
        for pool in self._pools.values():
            if pool.users <= 1:
                pool.wind_down()

    async def close(self, pooled: PooledFunction[..., Any]) -> None:
        """One user of a function is done; with the last one its pool ends."""
        pool = self._pools.get(pooled)
        if pool is None:
            return
        pool.users -= 1
        if pool.users <= 0:
            # Before it ends, which takes a moment: whoever opens the function meanwhile must not get this pool.
            del self._pools[pooled]
            await pool.end()

    async def call(self, pooled: PooledFunction[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Make a call in the pool of a function, which is made if it is not there."""
        return await self._pool(pooled).call(args, named)

    def waited_for(self, pooled: PooledFunction[..., Any]) -> FunctionPool | None:
        """The pool whose permits calls of a function wait for; None where none waits."""
        pool = self._pool(pooled)
        return pool if isinstance(pool, FunctionPool) else None

    def uses(self) -> list[PoolUse]:
        """How the pools are used."""
        found: dict[str, PoolUse] = {}
        for pooled, pool in self._pools.items():
            if isinstance(pool, FunctionPool):
                name, permits = pooled.__name__, pool.permits
                before = found.get(name, PoolUse(name, 0, 0, 0))
                found[name] = PoolUse(
                    name, before.permits + permits.size, before.taken + permits.taken, before.waiting + permits.waiting
                )
        return [*found.values()]

    async def end(self) -> None:
        """End all pools, side by side."""
        pools, self._pools = self._pools, {}
        await asyncio.gather(*(pool.end() for pool in pools.values()))

    def _pool(self, pooled: PooledFunction[..., Any]) -> FunctionPool | DirectPool:
        if (pool := self._pools.get(pooled)) is None:
            work = ThreadWork(pooled) if pooled.kind == "threads" else ProcessWork(pooled)
            pool = self._pools[pooled] = DirectPool(work) if self._at_once else FunctionPool(pooled, work)
        return pool


def loop_pools(loop: asyncio.AbstractEventLoop, *, at_once: bool = False) -> LoopPools:
    """The pools of an event loop. The first call makes them."""
    pools = pools_of(loop)
    if not isinstance(pools, LoopPools):
        pools = LoopPools(at_once=at_once)
        give_pools(loop, pools)
    return pools


async def open_pool(fn: Any) -> None:
    """Hold the pools of the running event loop until `close_pool`, and open that of `fn` if it is a pooled function."""
    pools = loop_pools(asyncio.get_running_loop())
    pools.hold()
    try:
        if isinstance(fn, PooledFunction):
            await fn.open()
    except BaseException:
        await pools.release()
        raise


async def close_pool(fn: Any) -> None:
    """Close the pool of a function that `open_pool` was called with, and release the pools of the event loop."""
    try:
        if isinstance(fn, PooledFunction):
            await fn.close()
    finally:
        await loop_pools(asyncio.get_running_loop()).release()

"""Timeouts and cancellation of users' asynchronous calls, also of calls that ignore their cancellation."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar
from weakref import WeakSet

from ....dsl.error_policy import GRACE_MS, Retry
from ....dsl.errors import MessageError, UsageError
from ....dsl.text import error_text
from ....dsl.validation import explain
from ....planner.descriptions import duration
from ...process.event_loops import LoopMaker
from ...process.interruptions import INTERRUPTIONS
from ...process.resource_limits import require_descriptors_of_loop
from .function_pools import PoolUse, loop_pools
from .loop_time import LoopTimer, loop_time
from .threads import CallThreads

T = TypeVar("T")

RunWork = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end in the event loop of users' functions, and returns its result."""

GRACE_SECONDS = GRACE_MS / 1000
# Of a run that ends by itself. One that was asked to stop has less, STOPPING_SECONDS: it must have ended soon.
CLOSE_SECONDS = 10.0
"""How long the clients of a process may take to close, all together, and each sink."""
# A run with calls in threads ends up to so much later than the last of them.
REST_SECONDS = 0.002

_log = logging.getLogger(__name__)


def as_error(raised: BaseException) -> Exception:
    """The error of a call's message, given what the call has raised. `asyncio.CancelledError`, which is no `Exception`,
    becomes `concurrent.futures.CancelledError`. What ends the process is raised again."""
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, INTERRUPTIONS):
        raise raised
    cancelled = isinstance(raised, asyncio.CancelledError)
    error: Exception = (
        CancelledError(f"what the function waited for was cancelled{f': {raised}' if str(raised) else ''}")
        if cancelled
        else RuntimeError(error_text(raised))
    )
    return error.with_traceback(raised.__traceback__)


class Expired(TimeoutError):
    """A call that `call_with_timeout` has made took too long."""


def too_late(timeout: int, attempt: int, attempts: int) -> TimeoutError:
    """The error of a call that took longer than `timeout` ms, the last of so many attempts."""
    return TimeoutError(f"no result within {duration(timeout)}, the timeout, in attempt {attempt} of {attempts}")


def is_retried(error: BaseException, retry: Retry) -> bool:
    """Whether the rules name the error's class. asyncio's CancelledError there means that of `as_error` too."""
    return is_one_of(error, retry.on)


def is_one_of(error: BaseException, classes: tuple[type[BaseException], ...]) -> bool:
    """Whether an error is of one of these classes. asyncio's CancelledError there means that of `as_error` too."""
    cancelled = isinstance(error, CancelledError) and issubclass(asyncio.CancelledError, classes)
    return cancelled or isinstance(error, classes)


class AbandonedCalls:
    """The tasks of calls that were given up and are still running. More than `most` of them are an error, which names
    the caller as `what`, and its location in the user's file as `origin`."""

    def __init__(self, most: int, what: str, origin: object) -> None:
        self._most = most
        self._what = what
        self._origin = origin
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Count a call as abandoned until it ends."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def check(self) -> None:
        """Raise MessageError if too many cancelled calls are still running."""
        if len(self._tasks) > self._most:
            wrong = f"{self._what}: {len(self._tasks)} calls run on although they were cancelled at their timeout"
            expected = f"a function that ends once it is cancelled, at the latest {GRACE_SECONDS:g} s later"
            remedy = "let asyncio.CancelledError pass: catch Exception, not BaseException"
            raise MessageError(explain(wrong, expected, remedy, self._origin))

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio logs that it was never retrieved

    def cancel(self) -> None:
        """Cancel all that still run, without waiting for them."""
        for task in tuple(self._tasks):
            task.cancel()


async def call_with_timeout(call: Coroutine[Any, Any, T], timeout: float, abandoned: AbandonedCalls) -> T:
    """Make a call in a task and a context of its own, and return its result. Raises Expired once the loop has run for
    `timeout` seconds, whatever the call does. Raises concurrent.futures.CancelledError if it was cancelled before."""
    loop = asyncio.get_running_loop()
    clock = loop_time(loop)
    timer: LoopTimer
    task, waiter, expired = loop.create_task(call), loop.create_future(), False
    stops = [task.cancel]

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    def expire() -> None:
        nonlocal timer, expired
        expired = True
        stops[0]()
        timer = clock.call_later(GRACE_SECONDS, wake)

    task.add_done_callback(wake)
    timer = clock.call_later(timeout, expire)
    try:
        await waiter
    except asyncio.CancelledError:
        # The caller was cancelled. It does not wait until the call has ended.
        task.cancel()
        abandoned.add(task)
        raise
    finally:
        timer.cancel()
    if not task.done():
        abandoned.add(task)
        abandoned.check()
        raise Expired
    try:
        return _outcome(task, expired=expired)
    finally:
        # An error's traceback refers to this frame, and the task to the error.
        stops.clear()
        del task


def _outcome(task: "asyncio.Task[T]", *, expired: bool) -> T:
    try:
        result = task.result()
    except Exception:
        raise
    except BaseException as raised:
        raise Expired if expired else as_error(raised) from None
    finally:
        del task
    if expired:
        raise Expired
    return result


def refuse_running_loop(what: str) -> None:
    """Raise UsageError if an event loop runs in this thread: `what` makes a loop for users' functions."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    wrong = f"{what} in a thread whose event loop runs, as in a notebook or in an async function"
    remedy = "call fluvial.runtime.start, or a plain function by: await asyncio.to_thread(function)"
    raise UsageError(explain(wrong, "a thread without one", remedy))


class CallLoop:
    """The event loop in which users' functions run: one of a process, for as long as it makes calls.

    Where it ends, tasks that ignore their cancellation, and calls in threads that do not return, are abandoned after
    GRACE_SECONDS.
    """

    def __init__(self, make_loop: LoopMaker = asyncio.new_event_loop) -> None:
        self._make_loop = make_loop
        self._begun: tuple[asyncio.AbstractEventLoop, CallThreads] | None = None
        self._left: WeakSet[asyncio.Task[Any]] = WeakSet()

    def begin(self) -> None:
        """Make the loop, unless it is there."""
        if self._begun is None:
            self._begun = begin_loop(self._make_loop)
            asyncio.set_event_loop(self._begun[0])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. `begin` is to be called before. Where that is interrupted, the coroutine is
        cancelled: it must not go on when the loop runs again, to close what it used."""
        assert self._begun is not None
        task = self._begun[0].create_task(work)
        try:
            return self._begun[0].run_until_complete(task)
        except BaseException:
            task.cancel()
            if task.done() and not task.cancelled():
                task.exception()  # or asyncio logs that it was never retrieved
            raise

    def pool_uses(self) -> list[PoolUse]:
        """How the pools of plain functions are used; nothing where the loop is not there."""
        return [] if self._begun is None else loop_pools(self._begun[0]).uses()

    def rest(self) -> bool:
        """Give calls that were cancelled GRACE_SECONDS to end, and return whether all have; others are not waited for
        again. Calls in threads that have not returned keep these threads, and later calls have new ones."""
        if self._begun is None:
            return True
        loop, threads = self._begun
        until = loop.time() + GRACE_SECONDS
        left = loop.run_until_complete(calls_ended(self._left))
        self._left.update(left)
        if threads.open:
            loop.run_until_complete(_wait_for(threads, until))
            self._begun = loop, CallThreads()
            loop.set_default_executor(self._begun[1])
        return not left

    def end(self) -> None:
        """Cancel what still runs, and close the loop, if it is there."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            end_loop(*begun)
        finally:
            asyncio.set_event_loop(None)


async def calls_ended(but: Collection["asyncio.Task[Any]"] = ()) -> "set[asyncio.Task[Any]]":
    """Wait until the tasks that were cancelled, and those that they cancel, have ended, GRACE_SECONDS at most. Returns
    those that have not; `but` are left out."""
    loop = asyncio.get_running_loop()
    until = loop.time() + GRACE_SECONDS
    while True:
        cancelled = {task for task in asyncio.all_tasks() if task.cancelling() and task not in but}
        if not cancelled or (left := until - loop.time()) <= 0:
            return cancelled
        await asyncio.wait(cancelled, timeout=left)


def begin_loop(make_loop: LoopMaker = asyncio.new_event_loop) -> tuple[asyncio.AbstractEventLoop, CallThreads]:
    """An event loop for users' functions, with pools for plain ones, and the threads of `asyncio.to_thread` calls."""
    require_descriptors_of_loop()
    loop, threads = make_loop(), CallThreads()
    loop.set_default_executor(threads)
    loop_pools(loop).hold()  # until the loop ends
    return loop, threads


def end_loop(loop: asyncio.AbstractEventLoop, threads: CallThreads) -> None:
    """Cancel the tasks that are still running, give them GRACE_SECONDS to end, and close the loop."""
    until = loop.time() + GRACE_SECONDS
    try:
        loop.run_until_complete(_cancel_all())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(_wait_for(threads, until))
        loop.run_until_complete(loop_pools(loop).end())
        loop.run_until_complete(_cancel_all())
    finally:
        loop.close()


async def _wait_for(threads: CallThreads, until: float) -> None:
    """Wait for calls in threads until a time of the loop: a thread cannot be cancelled."""
    loop = asyncio.get_running_loop()
    threads.shutdown(wait=False)
    while threads.open and loop.time() < until:
        await asyncio.sleep(REST_SECONDS)
    if threads.open:
        _log.warning(
            "calls in threads (asyncio.to_thread) that have not returned are left behind: %d",
            threads.open,
        )


async def _cancel_all() -> None:
    """Cancel tasks until none is left: a task that ends, or a timer that fires, may start other tasks."""
    loop, current = asyncio.get_running_loop(), asyncio.current_task()
    until = loop.time() + GRACE_SECONDS
    while (tasks := asyncio.all_tasks() - {current}) and (left := until - loop.time()) > 0:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=left)

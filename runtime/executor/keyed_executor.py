"""`KeyedExecutor`: many asynchronous calls at once for the messages of a loop of the user's, in order by key."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from ...dsl.error_policy import ErrorPolicy, Retry, fail
from ...dsl.errors import MessageError, UsageError
from ...dsl.operators import AsyncCall, Order
from ...dsl.operators.calls import MOST_IN_FLIGHT, TIMEOUT
from ...dsl.text import error_text
from ...dsl.validation import explain
from ...dsl.verb_calls import explained_call
from ..kernel.calls.async_calls import CallPool
from ..kernel.calls.call import Call
from ..kernel.calls.cancellation import GRACE_SECONDS, as_error
from ..kernel.calls.function_pools import close_pool, open_pool
from ..kernel.calls.threads import CallThreads
from .key_lines import KeyLines
from .options import checked_options, grace_seconds
from .partition_progress import PartitionProgress
from .submission import Entry, Submission, named
from .thread_calls import call_in_thread
from .watchers import Watchers

T = TypeVar("T")
R = TypeVar("R")

# Enough that a call which ends always finds the next one, and few enough that a crash repeats little of them.
MOST_WAITING = 1000
# A tenth of those that wait, so that no single key takes the room of the others.
MOST_PER_KEY = 100
# Each takes memory, and is processed again after a crash. With fewer, one slow call would soon stop its partition.
MOST_AHEAD = 10_000
REVOKE_GRACE = timedelta(seconds=10)


@partial(explained_call, error=UsageError)
class KeyedExecutor(Generic[T, R]):
    """Calls `await fn(value)` for messages that a program reads in a loop of its own: many at once, those of one key
    one after the other; and tells for each partition the offset before which every message has landed. It needs no
    broker and no pipeline.

    `order`: "key", the default, begins the call of a message once the one before it with the same key has landed; a
    message without key waits for none. "input" makes calls at once and lets results land in the order of submission,
    "none" as they come. For one call at a time in a partition let the partition be the key.

    Bounds, in messages: at most `max_in_flight` calls at once, with `max_waiting` more that wait; of one key
    `max_per_key` of these; and of one partition `max_ahead` from its position on, which are those that are made again
    after a crash. Beyond them `submit` waits.

    A call may take `timeout`, and a call that fails is repeated as `retry` says. Then `on_error=fail()` makes the
    executor fail: calls in flight are cancelled, `submit` and `drain` raise MessageError, and the position stays in
    front of the message. `skip()` counts the message in `skipped`, calls `on_skip(submission, error)` and goes on.
    `on_result(submission, result)` is called for each result before the message lands, within a key in order. Both are
    plain functions, called in the event loop; what they raise makes the executor fail.

    With `threads=True` `fn` is a plain function, called in threads, up to `max_in_flight` at once. A thread cannot be
    cancelled: a call that takes a second more than `timeout`, as an asynchronous one that ignores its cancellation, is
    given up, and may still run when the next call of its key begins.

    Its methods are to be called in the event loop in which it was entered. Raises UsageError in another one, and for
    wrong arguments.

    >>> async def main() -> None:
    ...     async def price(item: str) -> int:
    ...         await asyncio.sleep(0.001)  # a slow service
    ...         return len(item)
    ...     seen = []
    ...     async with KeyedExecutor(price, on_result=lambda item, result: seen.append(result)) as executor:
    ...         for offset, item in enumerate(["tea", "milk", "sugar"]):
    ...             await executor.submit(item, key=item, partition=("orders", 0), offset=offset)
    ...         await executor.drain()
    ...         print(sorted(seen), executor.position(("orders", 0)))
    >>> asyncio.run(main())
    [3, 4, 5] 3
    """

    @overload
    def __init__(
        self,
        fn: Callable[[T], Awaitable[R]],
        *,
        max_in_flight: int = ...,
        order: Order = ...,
        max_waiting: int = ...,
        max_per_key: int = ...,
        max_ahead: int = ...,
        timeout: timedelta = ...,
        retry: Retry | None = ...,
        on_error: ErrorPolicy = ...,
        on_result: Callable[[Submission[T], R], object] | None = ...,
        on_skip: Callable[[Submission[T], Exception], object] | None = ...,
        threads: Literal[False] = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        fn: Callable[[T], R],
        *,
        max_in_flight: int = ...,
        order: Order = ...,
        max_waiting: int = ...,
        max_per_key: int = ...,
        max_ahead: int = ...,
        timeout: timedelta = ...,
        retry: Retry | None = ...,
        on_error: ErrorPolicy = ...,
        on_result: Callable[[Submission[T], R], object] | None = ...,
        on_skip: Callable[[Submission[T], Exception], object] | None = ...,
        threads: Literal[True],
    ) -> None: ...
    def __init__(
        self,
        fn: Callable[[T], Any],
        *,
        max_in_flight: int = MOST_IN_FLIGHT,
        order: Order = "key",
        max_waiting: int = MOST_WAITING,
        max_per_key: int = MOST_PER_KEY,
        max_ahead: int = MOST_AHEAD,
        timeout: timedelta = TIMEOUT,
        retry: Retry | None = None,
        on_error: ErrorPolicy = fail(),  # noqa: B008 - frozen
        on_result: Callable[[Submission[T], Any], object] | None = None,
        on_skip: Callable[[Submission[T], Exception], object] | None = None,
        threads: bool = False,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._options = checked_options(given)
        self._lines = KeyLines(order == "key")
        self._entries: set[Entry] = set()
        self._partitions: dict[Hashable, PartitionProgress] = {}
        self._running: dict[asyncio.Task[Any], Entry] = {}
        self._called: WeakKeyDictionary[asyncio.Task[Any], Entry] = WeakKeyDictionary()
        self._watchers = Watchers()
        self._pool: CallPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: CallThreads | None = None
        self._failure: tuple[str, Exception] | None = None
        self._closed = False
        self._skipped = 0

    @property
    def in_flight(self) -> int:
        """How many messages were taken and have not landed: calls in flight, and those that wait for them."""
        return len(self._entries)

    @property
    def skipped(self) -> int:
        """How many messages failed and were left out, with `on_error=skip()`."""
        return self._skipped

    @property
    def positions(self) -> dict[Any, int]:
        """The position of each partition of which messages were submitted and that was not revoked."""
        return {partition: progress.position for partition, progress in self._partitions.items()}

    def position(self, partition: Hashable) -> int | None:
        """The offset before which every message of a partition has landed: commit that, and read from there after a
        crash. None where none was submitted, or the partition was revoked."""
        progress = self._partitions.get(partition)
        return None if progress is None else progress.position

    async def submit(
        self, value: T, *, key: Hashable = None, partition: Hashable = None, offset: int | None = None
    ) -> None:
        """Take a message, and return once there is room for the next one.

        The message is taken at once, also where the caller is cancelled while it waits for room. So several callers
        that wait have one message each beyond the bounds. A message of a partition that is being revoked is not taken.

        Raises MessageError once a message has failed; UsageError for an offset that is not above those submitted of its
        partition before, for one without the other, and outside `async with`.
        """
        pool = self._open_pool()
        progress = self._progress_of(key, partition, offset)
        if progress is not None and progress.revoked:
            return
        mark = bytearray(1) if progress is None or offset is None else progress.begin(offset)
        entry = Entry(Submission(value, key, partition, offset), progress, mark)
        self._entries.add(entry)
        if self._lines.join(entry):
            pool.submit(Call(None, entry, None))
        if not self._has_room(key, progress):
            await self._watchers.until(partial(self._has_room, key, progress))
            self._raise_failure()

    async def drain(self) -> None:
        """Wait until every message that was taken has landed. Raises MessageError once one has failed."""
        self._check_loop()
        await self._watchers.until(self._is_over)
        self._raise_failure()

    async def revoke(self, partition: Hashable, *, grace: timedelta = REVOKE_GRACE) -> int | None:
        """Let a partition go, such as to another consumer, and return its position, which is to be committed; None for
        one of which nothing was submitted.

        What is in flight of it has `grace` to land. Then calls are cancelled, and messages that have not landed are
        dropped: neither skipped nor failed, and whoever reads on from the position has them again. With
        `grace=timedelta(0)` that is at once. Waits up to a second for calls that were cancelled. Does not raise for an
        executor that has failed.

        Afterwards the partition is unknown, and may be submitted again from any offset.
        """
        self._check_loop()
        seconds = grace_seconds(grace)
        progress = self._partitions.get(partition)
        if progress is None:
            return None
        progress.revoked = True
        try:
            await self._watchers.until(lambda: progress.in_flight == 0 or self._is_over(), seconds)
        finally:
            dropped = {entry for entry in self._entries if entry.progress is progress}
            self._drop(dropped)
            if self._partitions.get(partition) is progress:
                del self._partitions[partition]
        position = progress.position
        await self._watchers.until(lambda: dropped.isdisjoint(self._running.values()), GRACE_SECONDS)
        return position

    async def __aenter__(self) -> Self:
        if self._pool is not None:
            wrong, expected = "KeyedExecutor: entered again", "one `async with` for each executor"
            raise UsageError(explain(wrong, expected, "make another one", self._options.origin))
        options = self._options
        order: Order = "input" if options.order == "input" else "none"
        most, timeout, retry = options.max_in_flight, options.timeout, options.retry
        call = AsyncCall(fn=self._call, max_in_flight=most, order=order, timeout=timeout, retry=retry)
        if options.threads:
            # As many may have been given up, and still run.
            self._threads = CallThreads(2 * options.max_in_flight)
        self._pool, self._loop = CallPool(options, call, self._ended, self._rest), asyncio.get_running_loop()
        await open_pool(options.fn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all messages, or, where the block was left by an error, cancel their calls."""
        try:
            if error is None:
                await self.drain()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._closed = True
        self._cancel()
        try:
            await self._watchers.until(lambda: not self._running, GRACE_SECONDS)
        finally:  # also where the caller is cancelled once more
            if self._threads is not None:
                self._threads.shutdown(wait=False)
            await close_pool(self._options.fn)

    def _check_loop(self) -> None:
        """Raise UsageError in another event loop than that of the executor, whose calls would end with it."""
        if self._loop not in (None, asyncio.get_running_loop()):
            wrong, expected = "KeyedExecutor: used in another event loop", "that in which it was entered"
            remedy = "from a thread: asyncio.run_coroutine_threadsafe(executor.submit(...), loop).result()"
            raise UsageError(explain(wrong, expected, remedy, self._options.origin))

    def _open_pool(self) -> CallPool:
        self._check_loop()
        self._raise_failure()
        if self._pool is None or self._closed:
            wrong = f"KeyedExecutor: submit {'after' if self._closed else 'before'} its `async with` block"
            raise UsageError(explain(wrong, "submit within it", "write: async with KeyedExecutor(...) as executor:"))
        return self._pool

    def _progress_of(self, key: Hashable, partition: Hashable, offset: int | None) -> PartitionProgress | None:
        """Where the offset of a message belongs; None where it has none."""
        valid = (partition is None) == (offset is None) and (offset is None or (type(offset) is int and offset >= 0))
        if not valid:
            wrong, expected = f"KeyedExecutor: partition={partition!r}, offset={offset!r}", "both, or none of them"
            raise UsageError(explain(wrong, expected, "write partition=(topic, number), offset=record.offset()"))
        try:  # before anything is taken: to hash them may raise, and to compare them with others
            self._lines.length(key)
            self._partitions.get(partition)
        except Exception as error:
            wrong, expected = f"KeyedExecutor: key={key!r}, partition={partition!r}: {error}", "what is hashable"
            raise UsageError(explain(wrong, expected, "pass bytes, text, a number or a tuple")) from error
        if offset is None:
            return None
        return self._partitions.setdefault(partition, PartitionProgress(partition, offset))

    def _has_room(self, key: Hashable, progress: PartitionProgress | None) -> bool:
        """Whether one who has submitted such a message may go on."""
        options = self._options
        if self._failure is not None or self._closed:
            return True
        inside = len(self._entries) <= options.most and self._lines.length(key) <= options.max_per_key
        return inside and (progress is None or progress.revoked or progress.ahead <= options.max_ahead)

    def _is_over(self) -> bool:
        return not self._entries or self._failure is not None

    async def _call(self, entry: Entry) -> tuple[Any, ...]:
        """One attempt of a call, in a worker of the pool. Gives nothing for a message that was dropped."""
        worker = asyncio.current_task()
        if entry.dropped or worker is None:
            return ()
        self._running[worker] = self._called[worker] = entry
        try:
            return (await self._fn(entry.submission.value),)
        except asyncio.CancelledError:
            if entry.dropped:
                return ()
            raise
        finally:
            self._running.pop(worker, None)
            if entry.dropped:
                self._watchers.look()

    async def _fn(self, value: Any) -> Any:
        threads = self._threads
        return await (self._options.fn(value) if threads is None else call_in_thread(threads, self._options.fn, value))

    async def _rest(self, seconds: float) -> None:
        """The pause before the next attempt of a call. A message that is dropped meanwhile is let go at once."""
        entry = self._called.pop(cast("asyncio.Task[Any]", asyncio.current_task()), None)
        if entry is None:  # its call has changed the context of its worker, so that another one goes on
            await asyncio.sleep(seconds)
        else:
            await self._watchers.until(lambda: entry.dropped, seconds)

    def _ended(self, call: Call) -> None:
        """A call has ended, in its last attempt."""
        entry: Entry = call.value
        error = None if call.error is None else call.take_error()
        if not entry.dropped and self._landed(entry, error, call.results) and entry.progress is not None:
            entry.progress.land(entry.mark)
        self._leave(entry)

    def _landed(self, entry: Entry, error: BaseException | None, results: list[Any]) -> bool:
        """Hand a result or an error over. Returns whether the message has landed; otherwise the executor has failed."""
        options, what = self._options, entry.submission
        try:
            if error is None:
                if options.on_result is not None:
                    options.on_result(what, results[0])
                return True
            if not isinstance(error, Exception) or options.policy.action_for(error) != "skip":
                self._fail(what, "the call", error)
                return False
            self._skipped += 1
            if options.on_skip is not None:
                options.on_skip(what, error)
        except BaseException as raised:  # also CancelledError, as of a future that was cancelled
            self._fail(what, "on_result" if error is None else "on_skip", as_error(raised))
            return False
        return True

    def _leave(self, entry: Entry) -> None:
        """A message has landed or was dropped, and its call is over: the next of its key begins."""
        if self._failure is None and not self._closed:
            self._entries.discard(entry)
            following = self._lines.leave(entry)
            if following is not None and self._pool is not None:
                self._pool.submit(Call(None, following, None))
        self._watchers.look()

    def _drop(self, entries: set[Entry]) -> None:
        """These messages are not to land. Those in flight are cancelled, and leave once their calls have ended."""
        for entry in entries:
            entry.dropped = True
            if self._lines.withdraw(entry):
                self._entries.discard(entry)
        for worker, entry in tuple(self._running.items()):
            if entry in entries:
                worker.cancel()
        self._watchers.look()

    def _fail(self, what: Submission[Any], part: str, error: BaseException) -> None:
        wrong = f"KeyedExecutor: {part} failed for {named(what)}: {error_text(error)}"
        remedy = "correct it and start again from `position`; or pass on_error=skip()"
        cause = error if isinstance(error, Exception) else RuntimeError(error_text(error))
        self._failure = explain(wrong, "a function that raises nothing", remedy, self._options.origin), cause
        self._cancel()

    def _cancel(self) -> None:
        """Nothing more lands."""
        if self._pool is not None:
            self._pool.cancel()
        for entry in self._entries:
            entry.dropped = True
        self._entries.clear()
        self._lines.clear()
        self._watchers.look()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            text, cause = self._failure
            raise MessageError(text) from cause

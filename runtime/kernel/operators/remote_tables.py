"""Remote tables of a process: cache, batches, retries and a rate over the user's functions.

From the outside in: cache, batch, retry, rate, function. So each repeat is counted by the rate, and what is repeated is
a batch. (The order of Apache Samza's remote tables.)
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Any

from ....dsl.error_policy import Retry
from ....dsl.remote_table import Batch, Cache, RemoteTable
from ..calls.cancellation import AbandonedCalls, Expired, is_retried, limited, too_late

_MISSING: Any = object()

MOST_ABANDONED = 100
"""Calls of a function that may run on although they were cancelled at their timeout."""


class RateLimiter:
    """Lets `per_second` keys pass each second, evenly spaced. None lets all pass."""

    def __init__(self, per_second: float | None) -> None:
        self._pause = 0.0 if per_second is None else 1 / per_second
        self._slack = 0.0 if per_second is None else max(0.1, self._pause)
        self._free_at = float("-inf")

    async def take(self, keys: int = 1) -> None:
        """Return when so many may pass."""
        if not self._pause:
            return
        now = asyncio.get_running_loop().time()
        begin = max(self._free_at, now - self._slack)
        self._free_at = begin + keys * self._pause
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


class RowCache:
    """The rows that were read or written last, as many and as long as the rules say; not that a key has none."""

    def __init__(self, rules: Cache | None) -> None:
        self._size = 0 if rules is None else rules.size
        self._ttl = float("inf") if rules is None or rules.ttl_ms is None else rules.ttl_ms / 1000
        self._rows: OrderedDict[Any, tuple[float, Any]] = OrderedDict()

    def get(self, key: Any) -> Any:
        """The row, or `_MISSING`."""
        entry = self._rows.get(key)
        if entry is None:
            return _MISSING
        until, row = entry
        if asyncio.get_running_loop().time() >= until:
            del self._rows[key]
            return _MISSING
        self._rows.move_to_end(key)
        return row

    def put(self, key: Any, row: Any) -> None:
        if row is None:
            self._rows.pop(key, None)
        elif self._size:
            self._rows[key] = (asyncio.get_running_loop().time() + self._ttl, row)
            self._rows.move_to_end(key)
            if len(self._rows) > self._size:
                self._rows.popitem(last=False)


class RemoteCalls:
    """Calls of one of the user's functions: each within `timeout` seconds, no more of them than the rate lets pass, and
    again as `retry` says. `what` names the function in errors."""

    def __init__(self, rate: RateLimiter, retry: Retry, timeout: float, what: str) -> None:
        self._rate = rate
        self._retry = retry
        self._timeout = timeout
        self._abandoned = AbandonedCalls(MOST_ABANDONED, what, None)

    async def make(self, fn: Callable[..., Awaitable[Any]], *arguments: Any, keys: int = 1) -> Any:
        """What the function returns, in the end."""
        for repeat in count(1):
            await self._rate.take(keys)
            try:
                return await limited(_awaited(fn, arguments), self._timeout, self._abandoned)
            except Exception as error:
                if repeat >= self._retry.attempts or not is_retried(error, self._retry):
                    if isinstance(error, Expired):
                        raise too_late(round(1000 * self._timeout), repeat, self._retry.attempts) from None
                    raise
            await asyncio.sleep(self._retry.pause_ms(repeat) / 1000)
        raise AssertionError


async def _awaited(fn: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
    return await fn(*arguments)


class KeyBatcher:
    """Gathers what is asked for into calls: a call is made when `size` keys are waiting, or `delay` seconds after the
    first of them. Who asks for the same key shares its answer; of what is written to a key the last counts."""

    def __init__(self, batch: Batch, make: Callable[[dict[Any, Any]], Awaitable[Mapping[Any, Any]]]) -> None:
        self._size = batch.size
        self._delay = batch.delay_ms / 1000
        self._make = make
        self._open: dict[Any, Any] = {}
        self._answer: asyncio.Future[Mapping[Any, Any]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, key: Any, row: Any = None) -> Any:
        """The answer for a key; None where there is none."""
        loop = asyncio.get_running_loop()
        if self._answer is None or self._answer.get_loop() is not loop:
            # Calls that another loop has left behind are nobody's any more.
            self._open, self._answer = {}, loop.create_future()
            self._timer = loop.call_later(self._delay, self._send)
        answer = self._answer
        self._open[key] = row
        if len(self._open) >= self._size:
            self._send()
        # Who gives up must not take the others' answer along.
        return (await asyncio.shield(answer)).get(key)

    def _send(self) -> None:
        asked, answer = self._open, self._answer
        if self._timer is not None:
            self._timer.cancel()
        self._open, self._answer, self._timer = {}, None, None
        if answer is not None:
            task = asyncio.get_running_loop().create_task(self._answered(asked, answer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answered(self, asked: dict[Any, Any], answer: "asyncio.Future[Mapping[Any, Any]]") -> None:
        try:
            rows = await self._make(asked)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(rows)


class RemoteTableClient:
    """A remote table as the tasks of one process share it."""

    def __init__(self, table: RemoteTable[Any, Any]) -> None:
        self._table = table
        self._cache = RowCache(table.cache)
        timeout = table.timeout_ms / 1000
        what = f"remote table {table.name!r}"
        self._reads = RemoteCalls(RateLimiter(table.reads_per_second), table.retry, timeout, f"read of {what}")
        self._writes = RemoteCalls(RateLimiter(table.writes_per_second), table.retry, timeout, f"write of {what}")
        self._read_batches = KeyBatcher(table.batch, self._read_many) if table.batch else None
        self._write_batches = KeyBatcher(table.batch, self._write_many) if table.batch else None
        self._written = 0  # how many rows were written so far
        self._last: dict[Any, asyncio.Future[None]] = {}  # the last write of each key that is under way

    async def read(self, key: Any) -> Any:
        """The row of a key; None if there is none."""
        row = self._cache.get(key)
        if row is _MISSING:
            written = self._written
            row = await (self._one(key) if self._read_batches is None else self._read_batches.ask(key))
            # What was written meanwhile may be newer.
            if written == self._written and not self._last:
                self._cache.put(key, row)
        return row

    async def write(self, key: Any, row: Any) -> None:
        """Write the row of a key; None deletes it. Rows of one key are written one after the other, in the order in
        which they come. The cache follows once the table has the row."""
        loop = asyncio.get_running_loop()
        before, done = self._last.get(key), loop.create_future()
        self._last[key] = done
        try:
            if before is not None and before.get_loop() is loop:
                await asyncio.shield(before)
            await self._write(key, row)
            self._cache.put(key, row)
        finally:
            self._written += 1
            done.set_result(None)
            if self._last[key] is done:
                del self._last[key]

    async def _write(self, key: Any, row: Any) -> None:
        if self._write_batches is None:
            assert self._table.write is not None
            await self._writes.make(self._table.write, key, row)
        else:
            await self._write_batches.ask(key, row)

    async def _one(self, key: Any) -> Any:
        return await self._reads.make(self._table.read, key)

    async def _read_many(self, asked: dict[Any, Any]) -> Mapping[Any, Any]:
        return _mapping(await self._reads.make(self._table.read, list(asked), keys=len(asked)))

    async def _write_many(self, asked: dict[Any, Any]) -> Mapping[Any, Any]:
        assert self._table.write is not None
        await self._writes.make(self._table.write, asked, keys=len(asked))
        return {}


def _mapping(rows: Any) -> Mapping[Any, Any]:
    if not isinstance(rows, Mapping):
        raise TypeError(f"with batch=, read must return a mapping of keys to rows, not {type(rows).__name__}")
    return rows


def joined(
    remote: RemoteTableClient, fn: Callable[[Any, Any], Any], how: str
) -> Callable[[Any], Awaitable[Iterable[Any]]]:
    """What an asynchronous operator calls to join a message with its row: it is given (key, value)."""
    inner = how == "inner"

    async def join(message: tuple[Any, Any]) -> Iterable[Any]:
        key, value = message
        row = None if key is None else await remote.read(key)
        return () if inner and row is None else (fn(value, row),)

    return join


def put(remote: RemoteTableClient) -> Callable[[Any], Awaitable[Iterable[Any]]]:
    """A function of (key, value) that writes a message's value under its key, for an asynchronous operator."""

    async def write(message: tuple[Any, Any]) -> Iterable[Any]:
        key, value = message
        if key is None:
            raise TypeError("a message without key cannot be written to a table")
        await remote.write(key, value)
        return ()

    return write

"""Remote tables of a process: cache, batches, retries and a door in front of the user's functions.

A read passes through cache, batch, retry and the door, in this order, which is that of Apache Samza's remote tables. So
a retry repeats a batch, and the rate, the limit and the breaker count it again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ....dsl.error_policy import Retry
from ....dsl.remote_table import Batch, Cache, RemoteTable
from ..calls.admission import Admission
from ..calls.call import Call
from ..calls.call_keys import KeysOfCall, offer_keys, present_keys
from ..calls.cancellation import AbandonedCalls, Expired, call_with_timeout, is_retried, too_late
from ..calls.circuit import Circuit
from ..calls.concurrency import Concurrency
from ..calls.hedged_calls import HedgedCalls
from ..calls.rate_limiter import RateLimiter
from ..calls.retry_pauses import pause_seconds
from ..calls.table_door import FunctionDoor, TableDoor
from ..value_copies import own_copy

_MISSING: Any = object()

OfOne = Callable[[Any], Awaitable[Any]]
"""A function of a key, or of all keys or rows of a batch."""

MOST_ABANDONED = 100
"""Calls of a function that may still be running after they were cancelled at their timeout."""


def _copied(row: Any) -> Any:
    """A copy of a row that several messages are given: their functions may change it in place. The row itself where it
    cannot be copied, as rows of some database drivers."""
    try:
        return own_copy(row)
    except Exception:  # copying may run code of the row's class, which may raise anything
        return row


class RowCache:
    """The rows that were read or written last, as many and as long as the rules say, and where they say so keys that
    have none. Rows are copied on their way in and out."""

    def __init__(self, rules: Cache | None) -> None:
        self._size = 0 if rules is None else rules.size
        self._ttl = float("inf") if rules is None or rules.ttl_ms is None else rules.ttl_ms / 1000
        self._missing = None if rules is None or rules.missing_ms is None else rules.missing_ms / 1000
        self._rows: OrderedDict[Any, tuple[float, Any]] = OrderedDict()

    def get(self, key: Any) -> Any:
        """A copy of the row, None of a key that has none, or `_MISSING` where it was never read, has expired or was
        pushed out."""
        entry = self._rows.get(key)
        if entry is None:
            return _MISSING
        until, row = entry
        if asyncio.get_running_loop().time() >= until:
            del self._rows[key]
            return _MISSING
        self._rows.move_to_end(key)
        return _copied(row)

    def put(self, key: Any, row: Any) -> None:
        """Keep a row, or None for a key without one, for the time that the rules say, and drop the one that was used
        least recently if there are too many."""
        seconds = self._missing if row is None else self._ttl
        if seconds is None:
            self._rows.pop(key, None)
        elif self._size:
            self._rows[key] = (asyncio.get_running_loop().time() + seconds, _copied(row))
            self._rows.move_to_end(key)
            if len(self._rows) > self._size:
                self._rows.popitem(last=False)


class RemoteCalls:
    """Calls one of the user's functions: each call within `timeout` seconds once the `door` lets it begin, if there is
    one, and again as `retry` says. `what` names the function in errors."""

    def __init__(self, retry: Retry, timeout: float, what: str, door: FunctionDoor | None) -> None:
        self._retry, self._timeout, self._door = retry, timeout, door
        self._abandoned = AbandonedCalls(MOST_ABANDONED, what, None)

    async def make(self, fn: Callable[..., Awaitable[Any]], *arguments: Any, names: KeysOfCall) -> Any:
        """The result of the function, after retries. `names` gives the keys of the call."""
        attempt, door = 0, self._door
        while True:
            attempt += 1
            call = None if door is None else await _entered(door, arguments)
            try:
                result = await self._attempt(_named(fn, arguments, names), call, attempt)
            except Exception as error:
                if attempt >= self._retry.attempts or not is_retried(error, self._retry):
                    raise
                pause = pause_seconds(self._retry, attempt, error)
            else:  # an error of the limit's functions does not make it again: it is paid
                if door is not None and call is not None:
                    _leave(door, call, result)
                return result
            await asyncio.sleep(pause)

    async def _attempt(self, made: Coroutine[Any, Any, Any], call: Call | None, attempt: int) -> Any:
        """The result of one attempt."""
        try:
            return await call_with_timeout(made, self._timeout, self._abandoned)
        except Expired:
            raise self._failed(call, self._too_late(attempt)) from None
        except Exception as error:
            self._failed(call, error)
            raise
        except BaseException:
            if self._door is not None and call is not None:
                self._door.give_up(call)
            raise

    def _too_late(self, attempt: int) -> TimeoutError:
        return too_late(round(1000 * self._timeout), attempt, self._retry.attempts)

    def _failed(self, call: Call | None, error: Exception) -> Exception:
        if self._door is not None and call is not None:
            self._door.leave(call, None, error)
        return error


async def _entered(door: FunctionDoor, arguments: tuple[Any, ...]) -> Call:
    """A call with these arguments that may begin. Raises the error of one that never may."""
    call = Call(None, _asked(arguments), None)
    refused = await door.enter(call)
    try:
        if refused is not None:
            raise refused
        return call
    finally:
        del refused  # its traceback refers to this frame


def _leave(door: FunctionDoor, call: Call, result: Any) -> None:
    """A call has ended with a result. Raises what a function of the limit raises."""
    wrong = door.leave(call, result, None)
    try:
        if wrong is not None:
            raise wrong
    finally:
        del wrong


def _asked(arguments: tuple[Any, ...]) -> Any:
    """What the functions of a limit are given of a call: the key, the keys of a batch, or rows by key."""
    return arguments[0] if len(arguments) == 1 else {arguments[0]: arguments[1]}


async def _named(fn: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], names: KeysOfCall) -> Any:
    offer_keys(names)  # in the context of this call alone
    return await fn(*arguments)


@dataclass(frozen=True, slots=True)
class _OpenBatch:
    """A batch that is not sent yet: rows by key, what names the call for each, the function that is called, the answer
    that its callers wait for, and what sends it in time."""

    rows: dict[Any, Any]
    names: dict[Any, KeysOfCall]
    fn: OfOne
    answer: asyncio.Future[Mapping[Any, Any]]
    timer: asyncio.TimerHandle


class KeyBatcher:
    """Combines requests for keys into batches. A batch is sent when it has `size` keys, or `delay` seconds after its
    first. Requests for the same key share one answer, of which each gets a copy; of several rows for a key the last is
    written."""

    def __init__(
        self,
        batch: Batch,
        make: Callable[[OfOne, dict[Any, Any], KeysOfCall], Awaitable[Mapping[Any, Any]]],
    ) -> None:
        self._size = batch.size
        self._delay = batch.delay_ms / 1000
        self._make = make
        self._open: _OpenBatch | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, fn: OfOne, key: Any, names: KeysOfCall, row: Any = None) -> Any:
        """The answer for a key; None if there is none. `fn` is what is called if this is the first key of its batch,
        and `names` gives the key of the call of a message."""
        loop = asyncio.get_running_loop()
        if self._open is None or self._open.answer.get_loop() is not loop:
            # Calls of an earlier event loop are discarded.
            self._open = _OpenBatch({}, {}, fn, loop.create_future(), loop.call_later(self._delay, self._send_open))
        batch = self._open
        batch.rows[key], batch.names[key] = row, names
        if len(batch.rows) >= self._size:
            self._send(batch)
        # A caller that is cancelled must not cancel the batch, which serves others.
        return _copied((await asyncio.shield(batch.answer)).get(key))

    def _send_open(self) -> None:
        assert self._open is not None  # a batch that is sent stops its timer
        self._send(self._open)

    def _send(self, batch: _OpenBatch) -> None:
        self._open = None
        batch.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._call(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        """Give up the batches that are not answered. Nobody may wait for them any more."""
        batch, self._open = self._open, None
        if batch is not None:
            batch.timer.cancel()
        for task in tuple(self._running):
            task.cancel()

    async def _call(self, batch: _OpenBatch) -> None:
        try:
            rows = await self._make(batch.fn, batch.rows, partial(_name_of_each, batch.names.values()))
        except Exception as error:
            batch.answer.set_exception(error)
            batch.answer.exception()  # or asyncio logs that it was never retrieved, where all callers were cancelled
        else:
            batch.answer.set_result(rows)


def _name_of_each(names: Iterable[KeysOfCall]) -> list[str]:
    return [name for one in names for name in one()]


class RemoteTableClient:
    """The client of a remote table, which the tasks of one process share."""

    def __init__(
        self, table: RemoteTable[Any, Any], admission: Admission | None = None, circuit: Circuit | None = None
    ) -> None:
        self._table = table
        self._read_fn = table.read if table.batch is None else _anew(table.read)
        self._write_fn = table.write if table.batch is None or table.write is None else _anew(table.write)
        self._cache = RowCache(table.cache)
        timeout = table.timeout_ms / 1000
        what = f"remote table {table.name!r}"
        counts = table.hedge_ms is not None
        self._read_door = _door(table, table.reads_per_second, admission, circuit, counts=counts)
        self._write_door = _door(table, table.writes_per_second, admission, circuit)
        self._reads = RemoteCalls(table.retry, timeout, f"read of {what}", self._read_door)
        self._writes = RemoteCalls(table.retry, timeout, f"write of {what}", self._write_door)
        self._read_batches = KeyBatcher(table.batch, self._read_many) if table.batch else None
        self._write_batches = KeyBatcher(table.batch, self._write_many) if table.batch else None
        self._written = 0  # the number of rows written so far
        self._last: dict[Any, asyncio.Future[None]] = {}  # the last write of each key that is in flight

    def hedged_reads(self) -> HedgedCalls | None:
        """The function that reads, with second calls, which are counted and bounded by themselves; None without."""
        hedge, most = self._table.hedge_ms, self._table.max_in_flight
        return None if hedge is None else HedgedCalls(self._read_fn, hedge / 1000, most)

    def door_of_reads(self, hedged: HedgedCalls | None) -> TableDoor | None:
        """A door of messages whose rows are read; None where they wait for nothing, and no second calls are counted."""
        return None if self._read_door is None else TableDoor(self._read_door, hedged)

    def door_of_writes(self) -> TableDoor | None:
        """A door of messages that are written; None where they wait for nothing."""
        return None if self._write_door is None else TableDoor(self._write_door)

    async def read(self, key: Any, hedged: HedgedCalls | None = None) -> Any:
        """The row of a key; None if there is none. `hedged` is how the function is called, if with second calls."""
        row = self._cache.get(key)
        if row is _MISSING:
            written, names = self._written, present_keys()
            fn, batches = hedged or self._read_fn, self._read_batches
            row = await (self._reads.make(fn, key, names=names) if batches is None else batches.ask(fn, key, names))
            # A row that was written meanwhile may be newer.
            if written == self._written and not self._last:
                self._cache.put(key, row)
        return row

    async def write(self, key: Any, row: Any) -> None:
        """Write the row of a key; None deletes it. Rows of one key are written one after the other, in the order of the
        calls. The cache is updated once the table has the row."""
        loop = asyncio.get_running_loop()
        before, done, names = self._last.get(key), loop.create_future(), present_keys()
        self._last[key] = done
        try:
            if before is not None and before.get_loop() is loop:
                await asyncio.shield(before)
            await self._write(key, row, names)
            self._cache.put(key, row)
        finally:
            self._written += 1
            if before is None or before.done() or before.get_loop() is not loop:
                self._end_write(key, done)
            else:  # it was cancelled as it waited: those behind it wait for the one before
                before.add_done_callback(lambda _: self._end_write(key, done))

    def _end_write(self, key: Any, done: asyncio.Future[None]) -> None:
        done.set_result(None)
        if self._last.get(key) is done:
            del self._last[key]

    def cancel(self) -> None:
        """Give up what was begun for calls that have been cancelled: their rows must not be written later."""
        for batches in (self._read_batches, self._write_batches):
            if batches is not None:
                batches.cancel()

    async def _write(self, key: Any, row: Any, names: KeysOfCall) -> None:
        assert self._write_fn is not None
        if self._write_batches is None:
            await self._writes.make(self._write_fn, key, row, names=names)
        else:
            await self._write_batches.ask(self._write_fn, key, names, row)

    async def _read_many(self, fn: OfOne, keys: dict[Any, Any], names: KeysOfCall) -> Mapping[Any, Any]:
        return _mapping(await self._reads.make(fn, list(keys), names=names))

    async def _write_many(self, fn: OfOne, rows: dict[Any, Any], names: KeysOfCall) -> Mapping[Any, Any]:
        await self._writes.make(fn, rows, names=names)
        return {}


def _door(
    table: RemoteTable[Any, Any],
    rate: float | None,
    admission: Admission | None,
    circuit: Circuit | None,
    *,
    counts: bool = False,
) -> FunctionDoor | None:
    """What calls of a function wait for; None if they wait for nothing, and nothing of them is to be counted."""
    if not counts and rate is None and admission is None and circuit is None and table.concurrency is None:
        return None
    batch, cached = None if table.batch is None else table.batch.size, table.cache is not None
    make = None if table.concurrency is None else partial(Concurrency, table.concurrency, table.most_calls)
    return FunctionDoor(RateLimiter(rate), admission, circuit, batch=batch, cached=cached, make=make)


def _anew(fn: OfOne) -> OfOne:
    """A function of a batch that is given keys or rows of its own in each attempt: it may use them up."""
    return lambda asked: fn(asked.copy())


def _mapping(rows: Any) -> Mapping[Any, Any]:
    if not isinstance(rows, Mapping):
        raise TypeError(f"with batch=, read must return a mapping of keys to rows, not {type(rows).__name__}")
    return rows


def with_client(table: RemoteTable[Any, Any], clients: Mapping[Any, Any]) -> RemoteTable[Any, Any]:
    """A table whose functions take no client: theirs is the one that the table's resource has opened, if it has one."""
    if table.resource is None:
        return table
    read, write, client = table.read, table.write, clients[table.resource]
    bound_write = None if write is None else lambda *rows: write(*rows, client)
    return replace(table, read=lambda keys: read(keys, client), write=bound_write)


def joined(
    remote: RemoteTableClient, fn: Callable[[Any, Any], Any], how: str, hedged: HedgedCalls | None = None
) -> Callable[[Any], Awaitable[Iterable[Any]]]:
    """A function of (key, value) that joins a message with its row, for an asynchronous operator."""
    inner = how == "inner"

    async def join(message: tuple[Any, Any]) -> Iterable[Any]:
        key, value = message
        row = None if key is None else await remote.read(key, hedged)
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

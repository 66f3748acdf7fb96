"""Remote tables: rows that somebody else keeps, read and written by asynchronous functions of the user's."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypedDict, TypeVar

from .adaptive import Adaptive, checked_concurrency, most_calls
from .breaker import Breaker, checked_breaker
from .error_policy import Retry
from .errors import PipelineError
from .functions import asynchronous
from .hedge import checked_hedge
from .limit import Limit, checked_limit
from .pooled_function import refuse_client
from .resource import Resource, checked_resource
from .validation import at_least_one, explain, millis, number, require
from .verb_calls import explained_call

K = TypeVar("K")
R = TypeVar("R")


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Batch:
    """Lets one call do for many messages of an `async_flat_map`, or for many keys of a remote table: it is made for
    `size` of them, or for those that have come `delay` after the first.

    >>> Batch(size=50, delay=timedelta(milliseconds=5)).delay_ms
    5
    """

    size: int
    delay_ms: int

    def __init__(self, *, size: int = 100, delay: timedelta = timedelta(milliseconds=10)) -> None:
        object.__setattr__(self, "size", at_least_one("Batch: size", size, "keys"))
        object.__setattr__(self, "delay_ms", millis("Batch: delay", delay))


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Cache:
    """Lets a remote table keep rows in memory: the `size` that were used last, each for `ttl` at most.

    A row that somebody else changes is seen again when its time is over; without `ttl`, not before it is dropped. With
    `missing` it is kept for so long, too, that a key has no row; else such a key is asked for each time.

    >>> Cache(size=10_000, ttl=timedelta(minutes=5), missing=timedelta(seconds=30)).ttl_ms
    300000
    """

    size: int
    ttl_ms: int | None
    missing_ms: int | None

    def __init__(self, *, size: int = 10_000, ttl: timedelta | None = None, missing: timedelta | None = None) -> None:
        object.__setattr__(self, "size", at_least_one("Cache: size", size, "rows"))
        object.__setattr__(self, "ttl_ms", None if ttl is None else millis("Cache: ttl", ttl, least=1))
        for_ms = None if missing is None else millis("Cache: missing", missing, least=1)
        object.__setattr__(self, "missing_ms", for_ms)


@dataclass(frozen=True, slots=True)
class RemoteTable(Generic[K, R]):
    """A table that is kept elsewhere. Made by `Pipeline.remote_table`, which says what its fields mean.

    >>> async def fetch(user: str) -> dict[str, str] | None:
    ...     return {"name": user.title()}
    >>> Pipeline("p").remote_table("users", read=fetch)
    RemoteTable('users')
    """

    name: str
    read: Callable[..., Awaitable[Any]]
    write: Callable[..., Awaitable[Any]] | None
    max_in_flight: int
    timeout_ms: int
    retry: Retry
    reads_per_second: float | None
    writes_per_second: float | None
    cache: Cache | None
    batch: Batch | None
    resource: Resource[Any] | None = None
    limit: Limit | None = None
    breaker: Breaker | None = None
    concurrency: Adaptive | None = None
    hedge_ms: int | None = None

    @property
    def most_calls(self) -> int:
        """How many calls of a function a process makes at once at most, where their number follows the service."""
        return most_calls(self.max_in_flight, None if self.batch is None else self.batch.size)

    @property
    def longest_ms(self) -> int:
        """How long an answer may take, in ms: all attempts and pauses, and the wait for a batch."""
        return self.retry.longest_ms(self.timeout_ms) + (self.batch.delay_ms if self.batch else 0)

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r})"


class TableOptions(TypedDict, total=False):
    """The arguments of `Pipeline.remote_table` that mean the same for each kind of functions."""

    max_in_flight: int
    timeout: timedelta
    retry: Retry
    reads_per_second: float | None
    writes_per_second: float | None
    limit: Limit | None
    breaker: Breaker | None
    concurrency: Adaptive | None
    hedge: timedelta | None
    cache: Cache | None


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What limits the calls of a remote table, as it was given: see `Pipeline.remote_table`."""

    max_in_flight: int
    timeout: timedelta
    retry: Retry
    reads_per_second: float | None
    writes_per_second: float | None
    limit: Limit | None = None
    breaker: Breaker | None = None
    concurrency: Adaptive | None = None
    hedge: timedelta | None = None


def check_write(table: RemoteTable[Any, Any], *, keyed: bool, key: Any, value: Any) -> Callable[..., Awaitable[Any]]:
    """The function that writes to a table; refuses what cannot be sent to it."""
    what = f"send_to {table!r}"
    remedy = "call .partition_by(fn, id=..., key_type=str) before it, or give the stream key="
    require(keyed, PipelineError, f"{what} of a stream without a key", "a keyed stream", remedy)
    for name, given in (("key", key), ("value", value)):
        remedy = "call .partition_by(...) or .map(...) before it"
        require(given is None, PipelineError, f"{what} with {name}=", "messages as they are to be rows", remedy)
    if table.write is None:
        wrong, remedy = f"{what}, which has no write=", "pass write= to remote_table(...)"
        raise PipelineError(explain(wrong, "a table that can be written", remedy))
    return table.write


def checked_remote(
    name: str,
    read: Callable[..., Awaitable[Any]],
    write: Callable[..., Awaitable[Any]] | None,
    limits: CallLimits,
    cache: Cache | None,
    batch: Batch | None,
    resource: Resource[Any] | None = None,
) -> RemoteTable[Any, Any]:
    """A remote table; raises PipelineError for arguments that make none."""
    what = f"remote_table {name!r}"
    good = batch is None or isinstance(batch, Batch)
    require(good, PipelineError, f"{what}: batch={batch!r}", "a Batch", "write batch=Batch(size=100)")
    client = () if checked_resource(what, resource) is None else ("client",)
    for fn in (read, write):
        refuse_client(what, fn, resource)
    asynchronous(f"{what}: read", read, "key" if batch is None else "keys", *client)
    if write is not None:
        asynchronous(f"{what}: write", write, *(("key", "row") if batch is None else ("rows",)), *client)
    at_least_one(f"{what}: max_in_flight", limits.max_in_flight, "calls")
    good, remedy = isinstance(limits.retry, Retry), "write Retry(attempts=3)"
    require(good, PipelineError, f"{what}: retry={limits.retry!r}", "a Retry", remedy)
    rates = {"reads_per_second": limits.reads_per_second, "writes_per_second": limits.writes_per_second}
    for option, rate in rates.items():
        if rate is not None:
            number(f"{what}: {option}", rate, "a number of keys above 0, or None for no limit", lambda rate: rate > 0)
    good = cache is None or isinstance(cache, Cache)
    require(good, PipelineError, f"{what}: cache={cache!r}", "a Cache", "write cache=Cache(size=10_000)")
    # The rate of writes counts no reads, which alone have second calls.
    uncounted = {"limit": limits.limit, "reads_per_second": limits.reads_per_second}
    return RemoteTable(
        name,
        read,
        write,
        limits.max_in_flight,
        millis(f"{what}: timeout", limits.timeout, least=1),
        limits.retry,
        limits.reads_per_second,
        limits.writes_per_second,
        cache,
        batch,
        resource,
        checked_limit(what, limits.limit),
        checked_breaker(what, limits.breaker),
        checked_concurrency(what, limits.concurrency, limits.max_in_flight, None if batch is None else batch.size),
        checked_hedge(what, limits.hedge, limits.timeout, uncounted),
    )

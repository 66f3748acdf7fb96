"""The asynchronous calls that operators make: of a function of the user's, or of one of a remote table."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from ..adaptive import Adaptive, checked_concurrency
from ..annotations import TypeForm
from ..breaker import Breaker, checked_breaker
from ..error_policy import Retry, checked_retry
from ..errors import PipelineError
from ..functions import asynchronous, gives_list_of_lists
from ..hedge import checked_hedge
from ..limit import Limit, checked_limit
from ..pooled_function import refuse_client
from ..remote_table import Batch, RemoteTable
from ..resource import Resource, checked_resource, opened_with
from ..serde import Serde, checked_value
from ..validation import at_least_one, explain, flag, millis, one_of, require

Order = Literal["key", "input", "none"]

MOST_IN_FLIGHT = 100
"""Calls of a task at once, if nothing else is said."""
TIMEOUT = timedelta(minutes=1)
"""How long a call may take, if nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncCall:
    """A call that an operator makes for each message, many at once, or with `batch` for several messages. `timeout` in
    ms; `table` is the remote table that the calls go to, None where the function is the user's. `resource` is what the
    function is given besides, `limit` and `breaker` what its calls wait for; `concurrency` lets their number follow the
    service. With `journal` results are kept until they are committed, so that no call is made twice;
    `result` is their type or serde, None where the function's annotation says it."""

    fn: Callable[..., Awaitable[Any]]
    max_in_flight: int
    order: Order
    timeout: int
    retry: Retry | None
    table: RemoteTable[Any, Any] | None = None
    resource: Resource[Any] | None = None
    batch: Batch | None = None
    limit: Limit | None = None
    breaker: Breaker | None = None
    concurrency: Adaptive | None = None
    journal: bool = False
    result: Any = None
    hedge: int | None = None
    """After so many ms a second call is made beside one that has not ended; None for never."""

    @property
    def opens(self) -> tuple[Any, ...]:
        """What each process opens before the first call: the resource, and the object whose method is called."""
        return (*(() if self.resource is None else (self.resource,)), *opened_with(self.fn))

    @property
    def longest_ms(self) -> int:
        """How long a call may take, in ms, with all attempts and the pauses between them, and the wait for a batch."""
        longest = (self.retry or Retry(attempts=1)).longest_ms(self.timeout)
        return longest + (self.batch.delay_ms if self.batch else 0)


@dataclass(frozen=True, slots=True)
class CallRules:
    """The arguments of `async_flat_map` but the function, as they were given."""

    max_in_flight: int
    order: Order
    timeout: timedelta
    retry: Retry | None
    resource: Resource[Any] | None
    batch: Batch | None
    limit: Limit | None
    breaker: Breaker | None
    concurrency: Adaptive | None
    journal: bool
    result: TypeForm[Any] | Serde[Any] | None
    hedge: timedelta | None


class CallOptions(TypedDict, total=False):
    """The arguments of `async_flat_map` that mean the same for each kind of function."""

    max_in_flight: int
    order: Order
    timeout: timedelta
    retry: Retry | None
    limit: Limit | None
    breaker: Breaker | None
    concurrency: Adaptive | None
    journal: bool
    result: TypeForm[Any] | Serde[Any] | None
    hedge: timedelta | None


def checked_call(what: str, fn: Any, given: CallRules) -> AsyncCall:
    """The call of a function of the user's; raises PipelineError for arguments that make none."""
    max_in_flight, order, timeout, retry = given.max_in_flight, given.order, given.timeout, given.retry
    resource = checked_resource(what, given.resource)
    refuse_client(what, fn, resource)
    limit = at_least_one(f"{what}: max_in_flight", max_in_flight, "messages")
    batch = _checked_batch(what, given.batch, limit)
    takes = "value" if batch is None else "values"
    asynchronous(what, fn, *((takes,) if resource is None else (takes, "client")), many=True)
    if batch is not None:
        gives_list_of_lists(what, fn)
    one_of(f"{what}: order", order, get_args(Order))
    checked_retry(what, retry)
    wait = millis(f"{what}: timeout", timeout, least=1)
    return AsyncCall(
        fn=fn,
        max_in_flight=limit,
        order=order,
        timeout=wait,
        retry=retry,
        resource=resource,
        batch=batch,
        limit=checked_limit(what, given.limit),
        breaker=checked_breaker(what, given.breaker),
        concurrency=checked_concurrency(what, given.concurrency, limit, None if batch is None else batch.size),
        journal=flag(f"{what}: journal", given.journal),
        result=_checked_result(what, given),
        hedge=checked_hedge(what, given.hedge, timeout, {"limit": given.limit}),
    )


def _checked_result(what: str, given: CallRules) -> Any:
    """The type or serde of what is kept in the journal, as given."""
    if given.result is None:
        return None
    remedy = "write journal=True too, or annotate what the function returns"
    require(given.journal, PipelineError, f"{what}: result= without journal=True", "a journal that keeps them", remedy)
    return checked_value(what, given.result, "result")


def _checked_batch(what: str, batch: Batch | None, limit: int) -> Batch | None:
    good = batch is None or isinstance(batch, Batch)
    require(good, PipelineError, f"{what}: batch={batch!r}", "a Batch", "write batch=Batch(size=20)")
    if batch is not None and batch.size > limit:
        wrong = f"{what}: batch=Batch(size={batch.size}) and max_in_flight={limit}, which counts messages"
        remedy = f"write max_in_flight={4 * batch.size}, for four calls at once, or a smaller size="
        raise PipelineError(explain(wrong, "room for one batch at least", remedy))
    return batch


def remote_call(table: RemoteTable[Any, Any], fn: Callable[..., Awaitable[Any]]) -> AsyncCall:
    """The call of a function of a remote table, which repeats the function itself: the call has no `retry`."""
    return AsyncCall(
        fn=fn,
        max_in_flight=table.max_in_flight,
        order="key",
        timeout=table.longest_ms,
        retry=None,
        table=table,
        resource=table.resource,
        limit=table.limit,
        breaker=table.breaker,
        concurrency=table.concurrency,
    )


def limits_of(calls: Iterable[AsyncCall]) -> tuple[Limit, ...]:
    """The limits of calls, each once, in the order in which they were first used."""
    return tuple(dict.fromkeys(call.limit for call in calls if call.limit is not None))


def breakers_of(calls: Iterable[AsyncCall]) -> tuple[Breaker, ...]:
    """The breakers of calls, each once, in the order in which they were first used."""
    return tuple(dict.fromkeys(call.breaker for call in calls if call.breaker is not None))

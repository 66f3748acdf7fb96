"""Asynchronous calls, and what may be asked of them."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, get_args

from ..error_policy import Retry
from ..errors import PipelineError
from ..functions import asynchronous
from ..remote_table import RemoteTable
from ..validation import at_least_one, millis, one_of, require
from .base import Emits, Operator

Order = Literal["key", "input", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncFlatMap(Operator):
    """Turns each value into any number of values, with many calls under way at once. `timeout` in ms."""

    fn: Callable[[Any], Awaitable[Iterable[Any]]]
    max_in_flight: int
    order: Order
    timeout: int
    retry: Retry | None
    kind: ClassVar[str] = "async_flat_map"
    emits: ClassVar[Emits] = "many"
    is_async: ClassVar[bool] = True

    @property
    def remote(self) -> RemoteTable[Any, Any] | None:
        """The remote table that its calls go to; None where the function is the user's."""
        return None


MOST_IN_FLIGHT = 100
"""Calls of a task at once, if nothing else is said."""
TIMEOUT = timedelta(minutes=1)
"""How long a call may take, if nothing else is said."""


def checked_call(
    what: str, fn: Any, max_in_flight: int | None, order: Order, timeout: timedelta | None, retry: Any
) -> dict[str, Any]:
    """The fields of the operator but its input; raises PipelineError for arguments that make none."""
    asynchronous(what, fn)
    limit = at_least_one(
        f"{what}: max_in_flight", MOST_IN_FLIGHT if max_in_flight is None else max_in_flight, "messages"
    )
    one_of(f"{what}: order", order, get_args(Order))
    good = retry is None or isinstance(retry, Retry)
    require(good, PipelineError, f"{what}: retry={retry!r}", "a Retry", "write retry=Retry(attempts=3)")
    wait = millis(f"{what}: timeout", TIMEOUT if timeout is None else timeout, least=1)
    return {"fn": fn, "max_in_flight": limit, "order": order, "timeout": wait, "retry": retry}

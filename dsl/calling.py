"""What an asynchronous operator may be told, checked where it is written."""

from datetime import timedelta
from typing import Any, get_args

from .error_policy import Retry
from .errors import PipelineError
from .functions import asynchronous
from .operators import Order
from .validation import at_least_one, millis, one_of, require

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

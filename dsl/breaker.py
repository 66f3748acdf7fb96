"""When calls of a service that fails are left off for a while."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .errors import PipelineError
from .validation import at_least_one, millis, operator_id, require
from .verb_calls import explained_call


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Breaker:
    """A circuit breaker: after so many `failures` in a row, with errors of the classes of `on`, no call is made for the
    time of `rest`, and no message is taken for one. Then one call is made to try: if it fails, all rest again.

    Operators that are given one `Breaker` share it, in each process. Each attempt of a call counts.

    >>> Breaker("service", failures=3, rest=timedelta(seconds=30), on=(OSError,)).rest_ms
    30000
    """

    name: str
    failures: int
    rest_ms: int
    on: tuple[type[BaseException], ...]

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        rest: timedelta = timedelta(seconds=10),
        on: tuple[type[BaseException], ...] = (Exception,),
    ) -> None:
        """`rest` is at least 1 ms. Raises PipelineError for arguments that make no breaker."""
        what = f"Breaker {name!r}"
        good = isinstance(on, tuple) and bool(on)
        good = good and all(isinstance(one, type) and issubclass(one, BaseException) for one in on)
        expected = "a tuple of classes of errors"
        require(good, PipelineError, f"{what}: on={on!r}", expected, "write on=(OSError,)")
        object.__setattr__(self, "name", operator_id(name, "breaker name"))
        object.__setattr__(self, "failures", at_least_one(f"{what}: failures", failures, "failures"))
        object.__setattr__(self, "rest_ms", millis(f"{what}: rest", rest, least=1))
        object.__setattr__(self, "on", on)


def checked_breaker(what: str, breaker: Any) -> Breaker | None:
    """The breaker of a verb's calls; anything but a `Breaker` and None is refused."""
    good = breaker is None or isinstance(breaker, Breaker)
    remedy = 'write breaker=Breaker("service", failures=5)'
    require(good, PipelineError, f"{what}: breaker={breaker!r}", "a Breaker", remedy)
    return breaker if isinstance(breaker, Breaker) else None

"""What a service allows: calls and tokens in a span of time, and a budget in all."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from .errors import PipelineError
from .functions import function
from .validation import explain, millis, number, one_of, operator_id, require
from .verb_calls import explained_call

WhenExhausted = Literal["pause", "error"]
"""What becomes of calls for which no budget is left."""


class BudgetExhausted(Exception):
    """No budget is left for a call of a `Limit` with `when_exhausted="error"`: the error of its message, which
    `on_error` may name.

    >>> Pipeline("asked", on_error=dead_letter(on=(BudgetExhausted,))).on_error.action
    'dead_letter'
    """


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """What a service allows: at most so many `calls`, and so many `tokens`, in any time of `per`, evenly spread; and a
    `budget` in all. Operators that are given one `Limit` share it, and so do the containers of a run. Each attempt of
    a call counts.

    `estimate(value)` says how many tokens a call takes, before it is made; `used(value, results)` how many it has
    taken. `cost(value, results)` is what a call has cost, in the unit of `budget`; 1 if nothing is said. With `batch=`
    the functions are given the list of values, and a list of the results of each. Calls wait for the limit; once the
    budget is exhausted they wait for good (`when_exhausted="pause"`), or fail with `BudgetExhausted` ("error").

    >>> limit = Limit("model", calls=500, tokens=90_000, per=timedelta(minutes=1), estimate=len, budget=20.0)
    >>> limit
    Limit('model')
    >>> Limit("model", calls=0)
    Traceback (most recent call last):
        ...
    fluvial.dsl.errors.PipelineError: Limit 'model': calls=0
      at ...
      expected: a number of calls, 1 or more
      to do: write such a number, or leave it out
    """

    name: str
    calls: float | None
    tokens: float | None
    per_ms: int
    estimate: Callable[[Any], float] | None
    used: Callable[[Any, Any], float] | None
    budget: float | None
    cost: Callable[[Any, Any], float] | None
    when_exhausted: WhenExhausted

    def __init__(
        self,
        name: str,
        *,
        calls: float | None = None,
        tokens: float | None = None,
        per: timedelta = timedelta(seconds=1),
        estimate: Callable[[Any], float] | None = None,
        used: Callable[[Any, Any], float] | None = None,
        budget: float | None = None,
        cost: Callable[[Any, Any], float] | None = None,
        when_exhausted: WhenExhausted = "pause",
    ) -> None:
        """`per` is at least 1 ms. Raises PipelineError for arguments that make no limit."""
        what = f"Limit {name!r}"
        if calls is not None:  # less than one call in a span never begins; it is one in a longer span
            number(f"{what}: calls", calls, "a number of calls, 1 or more", lambda value: 1 <= value < math.inf)
        for option, given, unit in (("tokens", tokens, "tokens"), ("budget", budget, "")):
            if given is not None:
                _above_zero(f"{what}: {option}", given, unit)
        one_of(f"{what}: when_exhausted", when_exhausted, get_args(WhenExhausted))
        for option, fn, takes in (("estimate", estimate, 1), ("used", used, 2), ("cost", cost, 2)):
            if fn is not None:
                function(f"{what}: {option}", fn, *("value", "results")[:takes])
        _refuse_halves(what, calls, tokens, budget, estimate, used, cost)
        wrong, remedy = f"{what}: when_exhausted={when_exhausted!r} without budget=", "write budget=, or leave it out"
        require(when_exhausted == "pause" or budget is not None, PipelineError, wrong, "a budget", remedy)
        in_time = calls is not None or tokens is not None or per == timedelta(seconds=1)
        wrong, remedy = f"{what}: per={per!r} without calls= and tokens=", "leave it out: a budget is for the whole run"
        require(in_time, PipelineError, wrong, "calls= or tokens= too", remedy)
        object.__setattr__(self, "name", operator_id(name, "limit name"))
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "per_ms", millis(f"{what}: per", per, least=1))
        object.__setattr__(self, "estimate", estimate)
        object.__setattr__(self, "used", used)
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "when_exhausted", when_exhausted)

    def __repr__(self) -> str:
        return f"Limit({self.name!r})"


def _above_zero(what: str, given: Any, unit: str) -> None:
    expected = f"a number of {unit} above 0" if unit else "a number above 0"
    number(what, given, expected, lambda value: 0 < value < math.inf)


def _refuse_halves(
    what: str,
    calls: float | None,
    tokens: float | None,
    budget: float | None,
    estimate: Callable[..., Any] | None,
    used: Callable[..., Any] | None,
    cost: Callable[..., Any] | None,
) -> None:
    """Refuse a limit of nothing, and options that say nothing without another one."""
    nothing = calls is None and tokens is None and budget is None
    require(not nothing, PipelineError, f"{what} limits nothing", "calls=, tokens= or budget=", "write calls=100")
    remedy = "write estimate=fn, where fn(value) returns the tokens that a call takes"
    require(tokens is None or estimate is not None, PipelineError, f"{what}: tokens= alone", "estimate= too", remedy)
    for option, given, of, needed in (
        ("estimate", estimate, "tokens", tokens),
        ("used", used, "tokens", tokens),
        ("cost", cost, "budget", budget),
    ):
        if given is not None and needed is None:
            raise PipelineError(explain(f"{what}: {option}= alone", f"{of}= too", f"write {of}=, or leave it out"))


def checked_limit(what: str, limit: Any) -> Limit | None:
    """The limit of a verb's calls; anything but a `Limit` and None is refused."""
    good = limit is None or isinstance(limit, Limit)
    remedy = 'write limit=Limit("service", calls=100)'
    require(good, PipelineError, f"{what}: limit={limit!r}", "a Limit", remedy)
    return limit if isinstance(limit, Limit) else None

"""The arguments of a `KeyedExecutor`, checked where they were written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from ...dsl.error_policy import ErrorPolicy, Retry, checked_retry
from ...dsl.errors import PipelineError, UsageError
from ...dsl.functions import asynchronous, called_name, function, is_asynchronous
from ...dsl.operators import Order
from ...dsl.origin import Origin, here
from ...dsl.validation import at_least_one, flag, millis, one_of, require

WHAT = "KeyedExecutor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """What a `KeyedExecutor` was asked for. `timeout` is in ms; `origin` is the line that made it."""

    fn: Callable[[Any], Any]
    max_in_flight: int
    order: Order
    max_waiting: int
    max_per_key: int
    max_ahead: int
    timeout: int
    retry: Retry | None
    policy: ErrorPolicy
    on_result: Callable[[Any, Any], object] | None
    on_skip: Callable[[Any, Exception], object] | None
    threads: bool
    origin: Origin

    @property
    def label(self) -> str:
        """What errors call the executor."""
        return WHAT

    @property
    def most(self) -> int:
        """How many messages it takes before `submit` waits."""
        return self.max_in_flight + self.max_waiting


def checked_options(given: dict[str, Any]) -> ExecutorOptions:
    """The options of arguments by name; raises UsageError for those that make no executor."""
    with _usage_errors():
        fn, threads = given["fn"], flag(f"{WHAT}: threads", given["threads"])
        _check_fn(fn, threads)
        one_of(f"{WHAT}: order", given["order"], get_args(Order))
        for name in ("max_in_flight", "max_waiting", "max_per_key", "max_ahead"):
            at_least_one(f"{WHAT}: {name}", given[name], "messages")
        checked_retry(WHAT, given["retry"])
        policy = given["on_error"]
        good = isinstance(policy, ErrorPolicy) and policy.action != "dead_letter"
        remedy = "write on_error=skip(), and on_skip= for a function that sets the message aside"
        require(good, PipelineError, f"{WHAT}: on_error={policy!r}", "fail() or skip()", remedy)
        for name, takes in (("on_result", "result"), ("on_skip", "error")):
            if given[name] is not None:
                function(f"{WHAT}: {name}", given[name], "submission", takes)
        wrong, expected = f"{WHAT}: on_skip without on_error=skip()", "both, or none"
        good = given["on_skip"] is None or policy.action == "skip"
        require(good, PipelineError, wrong, expected, "add on_error=skip()")
        timeout = millis(f"{WHAT}: timeout", given["timeout"], least=1)
    rest = {name: value for name, value in given.items() if name not in ("on_error", "timeout")}
    return ExecutorOptions(**rest, timeout=timeout, policy=policy, origin=here())


def grace_seconds(grace: timedelta) -> float:
    """A time to wait, in seconds; raises UsageError for anything but a timedelta that is not negative."""
    return millis(f"{WHAT}: grace", grace, error=UsageError) / 1000


def _check_fn(fn: Any, threads: bool) -> None:
    if not threads:
        asynchronous(f"{WHAT} without threads=True", fn, "value")
        return
    wrong = f"{WHAT} with threads=True got the asynchronous function {called_name(fn)}"
    good = not (callable(fn) and is_asynchronous(fn))
    require(good, PipelineError, wrong, "a plain function", "leave threads= out: the event loop runs it")
    function(WHAT, fn, "value")


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Arguments of an executor stand outside any pipeline: what the checks raise becomes a UsageError."""
    try:
        yield
    except PipelineError as error:
        raise UsageError(str(error)) from None

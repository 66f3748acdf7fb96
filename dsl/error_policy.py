"""What to do with a message that fails: stop, leave it out, set it aside, or try again first."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from .errors import PipelineError
from .validation import at_least_one, millis, number, one_of, require
from .verb_calls import explained_call

Action = Literal["fail", "skip", "dead_letter"]
"""What becomes of a message that fails."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What happens to a message that cannot be decoded or that an operator fails on, if the error is of one of the
    classes of `on`; any other error stops the run.

    >>> Pipeline("careful", on_error=dead_letter(on=(ValueError,))).on_error
    ErrorPolicy(action='dead_letter', on=(<class 'ValueError'>,))
    """

    action: Action
    on: tuple[type[BaseException], ...] = (BaseException,)

    def __post_init__(self) -> None:
        one_of("ErrorPolicy: action", self.action, get_args(Action))
        _check_classes(self.action, self.on)

    def action_for(self, error: BaseException) -> Action:
        """What happens to a message that has failed with this error.

        >>> skip(on=(LookupError,)).action_for(KeyError("ada")), skip(on=(LookupError,)).action_for(TypeError())
        ('skip', 'fail')
        """
        return self.action if isinstance(error, self.on) else "fail"


def _check_classes(what: str, on: Any) -> None:
    """Refuse anything but a tuple of classes of errors, one or more."""
    good = (
        isinstance(on, tuple)
        and bool(on)
        and all(isinstance(one, type) and issubclass(one, BaseException) for one in on)
    )
    require(good, PipelineError, f"{what}: on={on!r}", "a tuple of classes of errors", "write on=(OSError,)")


@explained_call
def fail() -> ErrorPolicy:
    """Stop the run with exit code 5 and commit nothing past the message: the default.

    >>> Pipeline("strict").on_error == fail()
    True
    """
    return ErrorPolicy("fail")


@explained_call
def skip(*, on: tuple[type[BaseException], ...] = (BaseException,)) -> ErrorPolicy:
    """Count the message and go on without it, if its error is of one of these classes; any other stops the run.

    >>> pipeline = Pipeline("shares", on_error=skip())
    >>> pipeline.stream("numbers", value=int).map(lambda number: 12 // number).send_to("shares")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("numbers", 0)
    ...     driver.report().failed
    {'map-2': 1}
    """
    return ErrorPolicy("skip", on)


@explained_call
def dead_letter(*, on: tuple[type[BaseException], ...] = (BaseException,)) -> ErrorPolicy:
    """Write the message and its error to the stream `{pipeline}-dead-letters`, count it, and go on, if the error is of
    one of these classes; any other stops the run.

    >>> pipeline = Pipeline("shares", on_error=dead_letter())
    >>> pipeline.stream("numbers", value=int).map(lambda number: 12 // number).send_to("shares")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("numbers", 0)
    ...     [dict(letter.headers)["fluvial-error"] for letter in driver.dead_letters]
    [b'ZeroDivisionError: integer division or modulo by zero']
    """
    return ErrorPolicy("dead_letter", on)


GRACE_MS = 1000
"""How long a function may take to clean up once it is cancelled at its timeout. Then its call is abandoned: it runs on
for itself, and what comes of it is ignored."""


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often and how soon a failed asynchronous call is made again.

    `attempts` counts all calls, the first included. The pause before the n-th repeat is
    `delay * factor ** (n - 1)`, at most `max_delay`. Only errors that are instances of `on` are tried again.
    A call that timed out counts as `TimeoutError`. One that was cancelled otherwise, such as by a client that closes
    its connections, counts as `concurrent.futures.CancelledError`, which is an `Exception`; `asyncio.CancelledError` in
    `on` means the same.

    >>> Retry(attempts=4, delay=timedelta(milliseconds=50)).pause_ms(3)
    200
    """

    attempts: int
    delay_ms: int
    factor: float
    max_delay_ms: int
    on: tuple[type[BaseException], ...]

    def __init__(
        self,
        *,
        attempts: int = 3,
        delay: timedelta = timedelta(milliseconds=100),
        factor: float = 2.0,
        max_delay: timedelta = timedelta(seconds=10),
        on: tuple[type[BaseException], ...] = (Exception,),
    ) -> None:
        number("Retry: factor", factor, "a number, 1.0 or more", lambda factor: factor >= 1.0)
        good = isinstance(on, tuple) and all(
            isinstance(type_, type) and issubclass(type_, BaseException) for type_ in on
        )
        require(good, PipelineError, f"Retry: on={on!r}", "a tuple of classes of errors", "write on=(OSError,)")
        object.__setattr__(self, "attempts", at_least_one("Retry: attempts", attempts, "attempts"))
        object.__setattr__(self, "delay_ms", millis("Retry: delay", delay))
        object.__setattr__(self, "factor", float(factor))
        object.__setattr__(self, "max_delay_ms", millis("Retry: max_delay", max_delay))
        object.__setattr__(self, "on", on)

    def longest_ms(self, timeout: int) -> int:
        """How long all attempts and the pauses between them may take, in ms; `timeout` is that of one call, which may
        take a second more if it does not heed it.

        >>> Retry(attempts=2, delay=timedelta(milliseconds=50)).longest_ms(1000)
        4050
        """
        return self.attempts * (timeout + GRACE_MS) + sum(map(self.pause_ms, range(1, self.attempts)))

    def pause_ms(self, repeat: int) -> int:
        """The pause before the given repeat, counted from 1, in ms."""
        return int(min(self.delay_ms * self.factor ** (repeat - 1), self.max_delay_ms))

"""What to do with a message that fails: stop, leave it out, set it aside, or try again first."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, get_args

from .errors import PipelineError
from .functions import called_name, function
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
        _check_classes(self.action, self.on, some=True)

    def action_for(self, error: BaseException) -> Action:
        """What happens to a message that has failed with this error. A group of errors, as a TaskGroup raises it, is of
        a class if all in it are.

        >>> skip(on=(LookupError,)).action_for(KeyError("ada")), skip(on=(LookupError,)).action_for(TypeError())
        ('skip', 'fail')
        """
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, self.on):
            return self.action if error.split(self.on)[1] is None else "fail"
        return self.action if isinstance(error, self.on) else "fail"


def _check_classes(what: str, on: Any, *, some: bool) -> None:
    """Refuse anything but a tuple of classes of errors; with `some` an empty one, too."""
    good = isinstance(on, tuple) and all(isinstance(one, type) and issubclass(one, BaseException) for one in on)
    require(
        good and (bool(on) or not some),
        PipelineError,
        f"{what}: on={on!r}",
        "a tuple of classes of errors",
        "write on=(OSError,)",
    )


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


# Time to close a connection, not to finish a request: for so long its permit is kept for nothing.
GRACE_MS = 1000
"""How long a function may take to clean up once it is cancelled at its timeout. Then its call is abandoned: it runs on
for itself, and what comes of it is ignored."""


AskedWait = float | timedelta | datetime | str | None
"""How long a service asks to be left alone: seconds, a duration, a time, or the text of a `Retry-After` header, which
has one of them; None if it does not say."""


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often and how soon a failed asynchronous call is made again.

    `attempts` counts all calls, the first included. The pause before the n-th repeat is
    `delay * factor ** (n - 1)`, at most `max_delay`. Only errors that are instances of `on` are tried again.
    A call that timed out counts as `TimeoutError`. One that was cancelled otherwise, such as by a client that closes
    its connections, counts as `concurrent.futures.CancelledError`, which is an `Exception`; `asyncio.CancelledError` in
    `on` means the same.

    `after(error)` tells how long the service asks to wait, if it does: seconds, a timedelta, a datetime (UTC where it
    has no zone), or the text of a `Retry-After` header. That is the pause then, at most `max_after`, whatever `delay`
    says. For None, and for text that is neither a number nor a date, the pause is the one above.

    `jitter` lengthens each pause at random, by this share of it at most, so that callers that failed together do not
    come back together. No pause counts for the timeout of a call.

    >>> def retry_after(error: Exception) -> str | None:
    ...     return getattr(error, "retry_after", None)
    >>> busy = OSError("busy")
    >>> busy.retry_after = "20"
    >>> Retry(after=retry_after).wait_ms(1, busy, now=0, random=0.0)
    20000
    >>> Retry(attempts=4, delay=timedelta(milliseconds=50)).pause_ms(3)
    200
    """

    attempts: int
    delay_ms: int
    factor: float
    max_delay_ms: int
    on: tuple[type[BaseException], ...]
    after: Callable[[Any], AskedWait] | None
    max_after_ms: int
    jitter: float

    def __init__(
        self,
        *,
        attempts: int = 3,
        delay: timedelta = timedelta(milliseconds=100),
        factor: float = 2.0,
        max_delay: timedelta = timedelta(seconds=10),
        on: tuple[type[BaseException], ...] = (Exception,),
        after: Callable[[Any], AskedWait] | None = None,
        max_after: timedelta = timedelta(minutes=1),
        jitter: float = 0.0,
    ) -> None:
        number("Retry: factor", factor, "a number, 1.0 or more", lambda factor: factor >= 1.0)
        _check_classes("Retry", on, some=False)
        object.__setattr__(self, "attempts", at_least_one("Retry: attempts", attempts, "attempts"))
        object.__setattr__(self, "delay_ms", millis("Retry: delay", delay))
        object.__setattr__(self, "factor", float(factor))
        object.__setattr__(self, "max_delay_ms", millis("Retry: max_delay", max_delay))
        object.__setattr__(self, "on", on)
        if after is not None:
            function("Retry: after", after, "error")
        object.__setattr__(self, "after", after)
        object.__setattr__(self, "max_after_ms", millis("Retry: max_after", max_after))
        number("Retry: jitter", jitter, "a number from 0 to 1", lambda jitter: 0.0 <= jitter <= 1.0)
        object.__setattr__(self, "jitter", float(jitter))

    def longest_ms(self, timeout: int) -> int:
        """How long all attempts and the pauses between them may take, in ms; `timeout` is that of one call, which may
        take a second more if it does not heed it.

        >>> Retry(attempts=2, delay=timedelta(milliseconds=50)).longest_ms(1000)
        4050
        """
        asked, last = 0 if self.after is None else self.max_after_ms, self.attempts - 1
        pauses = 0
        for repeat in range(1, self.attempts):
            pause = self.pause_ms(repeat)
            if pause == self.pause_ms(last):  # so are all between: there may be millions of them
                pauses += (self.attempts - repeat) * max(pause, asked)
                break
            pauses += max(pause, asked)
        return self.attempts * (timeout + GRACE_MS) + int(pauses * (1 + self.jitter))

    def pause_ms(self, repeat: int) -> int:
        """The pause before the given repeat, counted from 1, in ms: where no service asks for another, and without
        jitter."""
        try:
            grown = self.delay_ms * self.factor ** (repeat - 1) if self.delay_ms else 0
        except OverflowError:  # far beyond any delay
            return self.max_delay_ms
        return int(min(grown, self.max_delay_ms))

    def wait_ms(self, repeat: int, error: BaseException, *, now: int, random: float) -> int:
        """The pause before the given repeat after an error, in ms. `now` is the time, in ms since epoch, and `random` a
        number from 0 up to 1. Raises what `after` raises, and TypeError for what is no wait.

        >>> Retry(delay=timedelta(seconds=1), jitter=0.5).wait_ms(2, OSError(), now=0, random=0.5)
        2500
        """
        asked = None if self.after is None else _asked_ms(self.after, error, now)
        pause = self.pause_ms(repeat) if asked is None else min(asked, self.max_after_ms)
        return int(pause * (1 + self.jitter * random))


def checked_retry(what: str, retry: Any) -> Retry | None:
    """The `retry` of calls as given; refuses anything but a Retry and None."""
    good = retry is None or isinstance(retry, Retry)
    require(good, PipelineError, f"{what}: retry={retry!r}", "a Retry", "write retry=Retry(attempts=3)")
    checked: Retry | None = retry
    return checked


def _asked_ms(after: Callable[[Any], AskedWait], error: BaseException, now: int) -> float | None:
    """For how long a service asks to be left alone, in ms; None if it does not say."""
    asked = after(error)
    if isinstance(asked, str):
        asked = _parsed(asked.strip())
    if isinstance(asked, datetime):
        asked = asked if asked.tzinfo is not None else asked.replace(tzinfo=UTC)
        return max(0.0, asked.timestamp() * 1000 - now)
    if isinstance(asked, timedelta):
        asked = asked.total_seconds()
    if asked is None or (isinstance(asked, int | float) and not isinstance(asked, bool)):
        return None if asked is None or asked != asked else max(0.0, asked * 1000)
    expected = "seconds, a timedelta, a datetime, the text of a Retry-After header, or None"
    raise TypeError(f"after= of Retry: {called_name(after)} returned {asked!r}, not {expected}")


def _parsed(text: str) -> float | datetime | None:
    """The seconds or the date that a header has; None if it has neither."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None

"""When a second call is made beside one that takes long."""

from collections.abc import Mapping
from datetime import timedelta

from .errors import PipelineError
from .validation import millis, require


def checked_hedge(what: str, hedge: timedelta | None, timeout: timedelta, counting: Mapping[str, object]) -> int | None:
    """After how many ms a second call is made; None for never. Raises PipelineError for a time that is not shorter than
    the timeout, and beside options that count calls, by name: they would not count second ones."""
    if hedge is None:
        return None
    delay = millis(f"{what}: hedge", hedge, least=1)
    wrong = f"{what}: hedge={hedge!r} and timeout={timeout!r}"
    remedy = "write a shorter hedge=, such as what 95 of 100 calls take, or a longer timeout="
    require(
        delay < millis(f"{what}: timeout", timeout),
        PipelineError,
        wrong,
        "a time that is shorter than timeout=",
        remedy,
    )
    for option, given in counting.items():
        wrong = f"{what}: hedge= and {option}=, which would not count second calls"
        require(given is None, PipelineError, wrong, "one of them", "leave out hedge=")
    return delay

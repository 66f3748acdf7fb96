"""What a join of two streams may be told, checked where it is written."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_args

from .checks import function, millis, require
from .errors import PipelineError
from .operators import How, Retain, Time


def checked_join(
    what: str, fn: Callable[[Any, Any], Any], within: timedelta | None, how: How, retain: Retain, time: Time
) -> dict[str, Any]:
    """The fields of the operator but its inputs; raises PipelineError for arguments that make no join."""
    function(what, fn)
    choices = (("how", how, get_args(How)), ("retain", retain, get_args(Retain)), ("time", time, get_args(Time)))
    for name, given, known in choices:
        expected = " or ".join(f'"{word}"' for word in known)
        require(given in known, PipelineError, f"{what}: {name}={given!r}", expected)
    wrong, remedy = f"{what} has no within=", "pass within=timedelta(minutes=10)"
    require(within is not None, PipelineError, wrong, "how far apart in time two rows may be", remedy)
    # An entry of `within` is past it already where rows expire, so none would ever join.
    least = 1 if retain == "latest" else 0
    found = millis(f"{what}: within", timedelta(0) if within is None else within, least=least)
    return {"fn": fn, "within": found, "how": how, "retain": retain, "time": time}

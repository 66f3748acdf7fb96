"""How many calls run at once, where their number follows the service."""

from dataclasses import dataclass
from typing import Any

from .errors import PipelineError
from .validation import at_least_one, explain, require
from .verb_calls import explained_call


@explained_call
@dataclass(frozen=True, slots=True, init=False)
class Adaptive:
    """Lets the number of calls at once follow the service: as many as it works on at a time, `least` at least and
    `max_in_flight` at most. Each task of an `async_flat_map` has a number of its own; of a remote table each process
    has one for reads, and one for writes. It goes by how long calls take, not by how long their results wait for their
    order.

    >>> Adaptive(least=2)
    Adaptive(least=2)
    """

    least: int

    def __init__(self, *, least: int = 1) -> None:
        object.__setattr__(self, "least", at_least_one("Adaptive: least", least, "calls"))


def most_calls(max_in_flight: int, batch: int | None) -> int:
    """How many calls run at once at most, where `max_in_flight` counts messages: with a `batch` of so many messages
    each call is for that many."""
    return max(1, max_in_flight // (batch or 1))


def checked_concurrency(what: str, concurrency: Any, limit: int, batch: int | None) -> Adaptive | None:
    """The `concurrency=` of a verb's calls, of which `limit` run at once at most, or as many batches as that is; raises
    PipelineError for anything but an `Adaptive` with a number that is not larger, and None."""
    good = concurrency is None or isinstance(concurrency, Adaptive)
    remedy = "write concurrency=Adaptive()"
    require(good, PipelineError, f"{what}: concurrency={concurrency!r}", "an Adaptive", remedy)
    if not isinstance(concurrency, Adaptive):
        return None
    if concurrency.least > most_calls(limit, batch):
        wrong = f"{what}: concurrency=Adaptive(least={concurrency.least}) and max_in_flight={limit}, which is the most"
        wrong += "" if batch in (None, 1) else f", in batches of {batch}"
        raise PipelineError(explain(wrong, "a least that is not above the most", "write a larger max_in_flight="))
    return concurrency

"""`Autosize`: how a run that changes its size by itself is to do that."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ...dsl.errors import UsageError
from ...dsl.validation import require
from ...planner.settings import SPLITS
from .autosizer import Autosizer
from .busy_time_autosizer import BusyTimeAutosizer
from .run_load import SizeBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Autosize:
    """How a run changes its number of containers and its elasticity by itself, while it runs on Kafka.

    `containers` are the least and the most containers, and `elasticity` the least and the most key buckets of each
    task: 1, 2, 4 ... 64. A container is to take at most so many bytes of `memory`; None: as it comes. The `autosizer`
    decides; with `advise` what it decides is logged, and not done.

    Raises UsageError for a wrong argument.

    >>> Autosize(containers=(1, 8), elasticity=(1, 16)).containers
    (1, 8)
    """

    containers: tuple[int, int]
    elasticity: tuple[int, int] = (1, 1)
    memory: int | None = None
    autosizer: Autosizer = field(default_factory=BusyTimeAutosizer)
    advise: bool = False

    def __post_init__(self) -> None:
        whole = "two whole numbers, 1 or more, of which the first is not larger"
        _check("containers", self.containers, lambda number: number >= 1, whole, "write containers=(1, 8)")
        powers = "two of 1, 2, 4, 8, 16, 32 and 64, of which the first is not larger"
        _check("elasticity", self.elasticity, SPLITS.__contains__, powers, "write elasticity=(1, 16)")
        valid = self.memory is None or (type(self.memory) is int and self.memory > 0)
        wrong = f"Autosize: memory={self.memory!r}"
        require(valid, UsageError, wrong, "a number of bytes, 1 or more, or None", "write memory=2_000_000_000")
        valid, wrong = isinstance(self.advise, bool), f"Autosize: advise={self.advise!r}"
        require(valid, UsageError, wrong, "True or False", "write True, or leave it out")
        wrong, valid = f"Autosize: autosizer={self.autosizer!r}", callable(getattr(self.autosizer, "decide", None))
        require(valid, UsageError, wrong, "an object with a method decide(load, bounds)", "see Autosizer")

    def bounds(self, processors: int | None) -> SizeBounds:
        """What the run may become. Its containers share so many processors, None where each has its own."""
        return SizeBounds(self.containers, self.elasticity, self.memory, processors)


def _check(name: str, given: object, allowed: Callable[[int], bool], expected: str, remedy: str) -> None:
    pair = isinstance(given, tuple) and len(given) == 2 and all(type(one) is int and allowed(one) for one in given)
    ordered = pair and isinstance(given, tuple) and given[0] <= given[1]
    require(ordered, UsageError, f"Autosize: {name}={given!r}", expected, remedy)

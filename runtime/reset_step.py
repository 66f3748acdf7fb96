"""A step of a reset: one thing that it removes, or the start points that it sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

RemovedKind = Literal[
    "state", "store", "changelog", "journal", "stream", "checkpoint", "query", "offset", "identity", "start"
]


@dataclass(frozen=True, slots=True)
class ResetStep:
    """What `reset` removes: its kind, its name, and the function that removes it. To call that twice does no harm. The
    step of kind "start" sets the offsets that it names.

    >>> str(ResetStep("stream", "visits-by-user", lambda: None))
    'stream visits-by-user'
    """

    kind: RemovedKind
    name: str
    remove: Callable[[], None] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

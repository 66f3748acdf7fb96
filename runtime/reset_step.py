"""One thing that a reset removes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

RemovedKind = Literal["state", "store", "changelog", "stream", "checkpoint", "query"]


@dataclass(frozen=True, slots=True)
class ResetStep:
    """What is removed, by its name, and the function that removes it; to remove twice does no harm."""

    kind: RemovedKind
    name: str
    remove: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

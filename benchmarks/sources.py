"""What the input of a workload is made of: topics, each of messages from a seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """A message that tells its time, in ms since epoch."""

    @property
    def at(self) -> int:
        """The time, in ms since epoch."""
        ...


M = TypeVar("M", bound=Timed)

PARTITIONS = 4
"""Of every topic of the input and the output."""

VERSION = 2
"""Changes with what is generated, so that a broker's old input is not taken for the new."""

SPAN = 3 * 3_600_000
"""Event time from the first to the last message, in ms."""

JITTER = 8_000
"""Messages are out of order by less than so many ms."""

BASE = 1_700_000_040_000
"""When it begins: the start of a minute, in ms since epoch."""


@dataclass(frozen=True, slots=True)
class Source(Generic[M]):
    """A topic of the input. `made` gives the messages of so many events, or of so many orders; `size` tells how many
    those are. `markers` stand behind them in every partition, and are no part of what is measured or checked."""

    name: str
    made: Callable[[int], Iterator[M]]
    key: Callable[[M], str]
    size: Callable[[int], int] = int
    markers: tuple[M, ...] = ()

    def with_markers(self, count: int) -> Iterator[tuple[M, int | None]]:
        """All that the topic holds, each with its partition, None where its key decides."""
        return chain(
            ((message, None) for message in self.made(count)),
            ((marker, partition) for partition in range(PARTITIONS) for marker in self.markers),
        )

    def whole_size(self, count: int) -> int:
        """How many messages the topic holds."""
        return self.size(count) + PARTITIONS * len(self.markers)

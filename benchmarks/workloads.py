"""What is measured: the workloads, their numbers, and what each writes. Contenders are programs for these."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from benchmarks.events import EVENTS
from benchmarks.orders import ORDERS, PAYMENTS
from benchmarks.sources import Source


class Spent(Struct, frozen=True, gc=False):
    """What W2 and W4 read of an event."""

    user: str
    at: int
    cents: int


class Visit(Struct, frozen=True, gc=False):
    """What W3 reads of an event."""

    page: str


class Question(Struct, frozen=True, gc=False):
    """What W5 reads of an event."""

    seq: int
    page: str


class DearEvent(Struct, frozen=True, gc=False):
    """What W1 writes: the event, and its minute since epoch."""

    seq: int
    user: str
    session: str
    page: str
    at: int
    cents: int
    agent: str
    referrer: str
    minute: int


class Total(Struct, frozen=True, gc=False):
    """What W2 and W4 write: the events and cents of a user in a window, which starts at `start` ms since epoch."""

    user: str
    start: int
    count: int
    cents: int


class Views(Struct, frozen=True, gc=False):
    """What W3 writes at each event: how often its page has been seen by now."""

    page: str
    count: int


class Score(Struct, frozen=True, gc=False):
    """What W5 writes: the answer for an event."""

    seq: int
    score: int


class Placed(Struct, frozen=True, gc=False):
    """What W6 reads of an order."""

    order: str
    user: str
    at: int
    amount: int


class Paid(Struct, frozen=True, gc=False):
    """What W6 reads of a payment."""

    order: str
    at: int
    paid: int


class Settled(Struct, frozen=True, gc=False):
    """What W6 writes: an order with what was paid for it, both in cents."""

    order: str
    amount: int
    paid: int
    user: str


@dataclass(frozen=True, slots=True)
class Workload:
    """What a job is about: the messages of its `sources`, for one in `every` of as many events, or orders, as the size
    of the benchmark says. `target` is what the local engine is to reach of the loop by hand, where that is said."""

    name: str
    title: str
    every: int = 1
    sources: tuple[Source[Any], ...] = (EVENTS,)
    target: float | None = None

    def count(self, messages: int) -> int:
        """How many events, or orders, it is about, where the size of the benchmark is so many messages."""
        return messages // self.every

    def size(self, messages: int) -> int:
        """How many messages it reads, those of all its topics."""
        return sum(source.size(self.count(messages)) for source in self.sources)

    def inputs(self, messages: int) -> Iterator[Iterator[Any]]:
        """The messages of each topic."""
        return (source.made(self.count(messages)) for source in self.sources)


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W1", "decode, filter, map, encode"),
        Workload("W2", "count and sum per user and minute, 100,000 users"),
        Workload("W3", "repartition by page, running count"),
        Workload("W4", "sessions per user, gap of 30 minutes"),
        Workload("W5", "lookups of 5 ms, 1,000 in flight", every=5),
        Workload("W6", "orders joined with payments within 10 minutes", 4, (ORDERS, PAYMENTS), target=0.3),
    )
}

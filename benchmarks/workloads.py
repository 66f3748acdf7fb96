"""What is measured: the workloads, their numbers, and what each writes. Contenders are programs for these."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

MINUTE = 60_000
"""W2's windows, in ms."""

GAP = 1_800_000
"""W4's gap, in ms: a session goes on while the user's events are at most so far apart."""

OUT_OF_ORDER = 10_000
"""How far events may be behind, in ms, before windows close; more than they are."""

DEAR = 5_000
"""W1 keeps events of so many cents or more: about half."""

LOOKUP = 0.005
"""Seconds that a lookup of W5 takes."""

IN_FLIGHT = 1_000
"""Lookups of W5 that a contender may have under way, all its tasks together."""


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


@dataclass(frozen=True, slots=True)
class Workload:
    """What a job is about. It reads one event in `every`."""

    name: str
    title: str
    every: int = 1

    def events(self, count: int) -> int:
        """How many events it reads, where the whole input has `count`."""
        return count // self.every


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W1", "decode, filter, map, encode"),
        Workload("W2", "count and sum per user and minute, 100,000 users"),
        Workload("W3", "repartition by page, running count"),
        Workload("W4", "sessions per user, gap of 30 minutes"),
        Workload("W5", "lookups of 5 ms, 1,000 in flight", every=5),
    )
}

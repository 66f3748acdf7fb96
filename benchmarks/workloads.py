"""What is measured: the workloads, their numbers, and what each writes. Contenders are programs for these."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct


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

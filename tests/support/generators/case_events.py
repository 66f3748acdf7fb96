"""What flows through random pipelines, and how a function refuses some of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What flows through a random pipeline: a word of a few, a number, and when."""

    k: str
    n: int
    at: int


class Refused(Exception):
    """Raised on purpose."""


def refuse(event: Event, number: int) -> None:
    """Raise for one event in every number + 2, told by its value alone."""
    if event.n % (number + 2) == 1:
        raise Refused(f"n={event.n}")


NO_EVENT = Event("", 3, 0)
"""Stands in for an event that is missing."""


def at(event: Event) -> int:
    return event.at


def at_if_good(event: Event) -> int:
    refuse(event, 4)
    return event.at

"""Assigners: which windows a message belongs to, by its timestamp."""

from dataclasses import dataclass
from datetime import timedelta

from .checks import millis


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of `size` ms that follow one another, aligned to the epoch."""

    size: int


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when a key has been silent for more than `gap` ms."""

    gap: int


Assigner = Tumbling | Session


def tumbling(size: timedelta) -> Tumbling:
    """Windows of one size, side by side: [0, size), [size, 2 * size) ... in event time.

    >>> tumbling(timedelta(minutes=1))
    Tumbling(size=60000)
    """
    return Tumbling(millis("tumbling: size", size, least=1))


def session(gap: timedelta) -> Session:
    """Windows that grow while messages of a key are at most `gap` apart: [first, last + gap + 1 ms).

    >>> session(timedelta(minutes=30))
    Session(gap=1800000)
    """
    return Session(millis("session: gap", gap, least=1))

"""Assigners: which windows a message belongs to, by its timestamp."""

from dataclasses import dataclass
from datetime import timedelta
from math import gcd

from ..errors import PipelineError
from ..validation import millis, require
from ..verb_calls import explained_call


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of `size` ms that follow one another, aligned to the epoch."""

    size: int


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of `size` ms, one of which begins `every` so many ms, aligned to the epoch."""

    size: int
    every: int


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when a key has been silent for more than `gap` ms."""

    gap: int


@dataclass(frozen=True, slots=True)
class Unbounded:
    """One window for all messages of a key, which never ends."""


Assigner = Tumbling | Hopping | Session | Unbounded


def aligned_span(assigner: Assigner) -> int | None:
    """The size in ms of the longest spans of time, aligned to the epoch, whose times all lie in the same windows, and
    at whose ends windows end; None where there are none.

    >>> aligned_span(Tumbling(60_000)), aligned_span(Hopping(90_000, every=60_000)), aligned_span(Unbounded())
    (60000, 30000, None)
    """
    if isinstance(assigner, Tumbling):
        return assigner.size
    return gcd(assigner.size, assigner.every) if isinstance(assigner, Hopping) else None


@explained_call
def tumbling(size: timedelta) -> Tumbling:
    """Windows of one size, side by side: [0, size), [size, 2 * size) ... in event time.

    >>> tumbling(timedelta(minutes=1))
    Tumbling(size=60000)
    """
    return Tumbling(millis("tumbling: size", size, least=1))


@explained_call
def hopping(size: timedelta, every: timedelta) -> Hopping:
    """Windows of one size that overlap: [0, size), [every, every + size) ... A message belongs to all that it lies in.

    >>> hopping(timedelta(minutes=5), every=timedelta(minutes=1))
    Hopping(size=300000, every=60000)
    """
    length, step = millis("hopping: size", size, least=1), millis("hopping: every", every, least=1)
    wrong = f"hopping: every={every} is longer than size={size}"
    require(step <= length, PipelineError, wrong, "windows without gaps between them", "filter messages out before")
    return Hopping(length, step)


@explained_call
def session(gap: timedelta) -> Session:
    """Windows that grow while messages of a key are at most `gap` apart: [first, last + gap + 1 ms).

    >>> session(timedelta(minutes=30))
    Session(gap=1800000)
    """
    return Session(millis("session: gap", gap, least=1))


@explained_call
def unbounded() -> Unbounded:
    """One window for all messages of a key. It fires when its trigger does, and at the end of input; its state is kept
    for ever. The timestamp of its panes is that of its latest message.

    >>> unbounded()
    Unbounded()
    """
    return Unbounded()

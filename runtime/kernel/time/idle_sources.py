"""Sources to which nothing comes: after how long they are idle, and how far their time goes on then."""

from collections.abc import Container, Iterator, Mapping, MutableMapping
from typing import TypeVar

Key = TypeVar("Key")


def newly_idle(
    since: MutableMapping[Key, int], patience: Mapping[Key, int], active: Container[Key], now: int
) -> Iterator[tuple[Key, int]]:
    """The sources that have been quiet for their `patience`, each with the time in ms that has passed meanwhile: a
    multiple of its patience.

    `since` says from when on each has been quiet, by the clock. It is brought up to date: those that are `active` are
    quiet from `now` on, and those that are given from where the time that is given ends.
    """
    for source, wait in patience.items():
        quiet = now - since.setdefault(source, now)
        if source in active:
            since[source] = now
        elif quiet >= wait:
            passed = quiet - quiet % wait
            since[source] += passed
            yield source, passed

"""Timers whose times may be near or far, in slots of three sizes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from ..state_backend import Change, StateBackend
from ..state_cache import WriteBackCache
from .bounds import END
from .timers import Timers

SIZES = (1_000, 60_000, 3_600_000)
"""Sizes of slots, in ms."""

SLOTS = 16
"""A timer is set in slots of a size if at least so many of them lie between now and its time."""


class FarTimers:
    """Timers by key. State: three sets of timers, in slots of a second, a minute and an hour.

    To set a timer in a slot that has begun, all timers of that slot are read. Therefore a timer is set in a slot that
    begins later, if there is one. Of the three sizes it takes the largest that is small beside the time until the timer
    is due, which also keeps the number of slots small.
    """

    def __init__(
        self, name: str, backend: StateBackend, complete: bool, on_new: Callable[[int], None], fired: int
    ) -> None:
        self._tiers = [
            Timers(name, backend, size, complete, on_new, fired, mark=b"%d" % number)
            for number, size in enumerate(SIZES)
        ]

    def set(self, time: int, now: int, key: bytes) -> None:
        """Set a timer of a key at a time after `now`. `now` is not before the last watermark."""
        far = time - now
        tier = 2 if far >= SLOTS * SIZES[2] else 1 if far >= SLOTS * SIZES[1] else 0
        self._tiers[tier].set(time, key)

    def fire(self, watermark: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the times up to the watermark at which timers are due, in order, each with its keys in order. Timers
        that are set during the iteration fire too."""
        while (time := self.next_due()) <= watermark and time < END:
            # A slot may begin before its first timer is due.
            if due := {key for tier in self._tiers for _, key in tier.fire(time)}:
                yield time, sorted(due)
        for tier in self._tiers:
            for _ in tier.fire(watermark):
                pass

    def waiting(self) -> Iterator[tuple[int, frozenset[bytes]]]:
        """Yield the keys of the timers that have not fired, hour by hour, each time with the end of the hour. The
        timers stay; others may be set meanwhile, in later hours."""
        passed: int | None = None
        while (first := self._first_behind(passed)) is not None:
            over = first - first % SIZES[-1] + SIZES[-1]
            yield over, frozenset(key for tier in self._tiers for key in _waiting_between(tier, passed, over))
            passed = over - 1

    def _first_behind(self, time: int | None) -> int | None:
        """The first slot that begins after this time; None: the first of all."""
        firsts = (tier.slot_behind(time) for tier in self._tiers)
        return min((slot for slot in firsts if slot is not None), default=None)

    def next_due(self) -> int:
        """The least watermark at which `fire` has something to do; END if there are no timers."""
        one, two, three = self._tiers
        return min(one.next_due(), two.next_due(), three.next_due())

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return sum(tier.changed for tier in self._tiers)

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain.from_iterable(tier.changes() for tier in self._tiers)

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        for tier in self._tiers:
            tier.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain.from_iterable(tier.caches() for tier in self._tiers)


def _waiting_between(timers: Timers, behind: int | None, before: int) -> Iterator[bytes]:
    """The keys of the timers that have not fired, of the slots that begin between two times."""
    slot = behind
    while (slot := timers.slot_behind(slot)) is not None and slot < before:
        yield from timers.waiting_in(slot)

"""FarTimers: timers whose times may lie near or far, in slots that fit how far."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from ..state_cache import Change, StateBackend, WriteBackCache
from .bounds import END
from .timers import Timers

SIZES = (1_000, 60_000, 3_600_000)
"""Sizes of slots, in ms."""

SLOTS = 16
"""Slots that must lie between now and a time for its slot to be of a size."""


class FarTimers:
    """Keys that ring at times. State: three sets of timers, in slots of a second, a minute and an hour.

    An alarm costs a walk through those of its slot if that has come, so it has a slot that is still to come, where
    there is one: the largest that is small beside the time from now. That makes few slots, too.
    """

    def __init__(
        self, name: str, backend: StateBackend, complete: bool, on_new: Callable[[int], None], rung: int
    ) -> None:
        self._tiers = [
            Timers(name, backend, size, complete, on_new, rung, mark=b"%d" % number)
            for number, size in enumerate(SIZES)
        ]

    def set(self, time: int, now: int, key: bytes) -> None:
        """Let a key ring at a time after `now`, which is not before the last watermark."""
        far = time - now
        tier = 2 if far >= SLOTS * SIZES[2] else 1 if far >= SLOTS * SIZES[1] else 0
        self._tiers[tier].set(time, key)

    def fire(self, watermark: int) -> Iterator[tuple[int, list[bytes]]]:
        """The times up to the watermark at which keys ring, each with its keys, both in their order. What is set
        meanwhile rings too; but at END all that ring are to be taken before any is set."""
        while (time := self.next_due()) <= watermark and time < END:
            # Where a slot begins, nothing may be due.
            if due := {key for tier in self._tiers for _, key in tier.fire(time)}:
                yield time, sorted(due)
        for tier in self._tiers:
            for _ in tier.fire(watermark):
                pass

    def next_due(self) -> int:
        """The watermark from which `fire` has something to do; END if there are no alarms."""
        one, two, three = self._tiers
        return min(one.next_due(), two.next_due(), three.next_due())

    @property
    def changed(self) -> int:
        return sum(tier.changed for tier in self._tiers)

    def changes(self) -> Iterator[Change]:
        return chain.from_iterable(tier.changes() for tier in self._tiers)

    def mark_committed(self) -> None:
        for tier in self._tiers:
            tier.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        return chain.from_iterable(tier.caches() for tier in self._tiers)

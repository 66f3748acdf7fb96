"""Counts what calls use of a limit in a span of time, and says when more may be used. Time is an argument."""

import math
from collections import deque

SLOTS = 100
"""Into so many parts a span is divided. What was used counts until the whole part is a span ago."""
SLACK = 0.02
"""The share of a span that use may be late by and catch up with, beyond `LEAST_SLACK`."""
LEAST_SLACK = 0.1
"""Seconds that use may be late by and catch up with: event loops are busy at times."""
_NEARLY = 1e-9
"""Far more than the rounding of sums, as a share of what may be used."""


class Meter:
    """Lets at most `most` be used in any `per` seconds, evenly spread; with `per` infinite, in all.

    A time of `per` seconds includes its begin and not its end. Memory is that of SLOTS numbers. Times come in order.

    >>> meter = Meter(5, per=1.0)
    >>> meter.take(0.0, 1)
    >>> round(meter.wait(0.0, 1), 3)  # a fifth of the second for each, of which a tenth may be caught up with
    0.1
    """

    __slots__ = ("_free_at", "_slot", "_slots", "most", "per", "used_in_all")

    def __init__(self, most: float, per: float) -> None:
        self.most = most
        """What may be used in `per` seconds. It may be changed; what was used before goes on to count."""
        self.per = per
        self._slot = per / SLOTS
        self._slots: deque[list[float]] = deque()
        self._free_at = -math.inf
        self.used_in_all = 0.0

    def stretch(self, per: float) -> None:
        """Make the span longer, to `per` seconds. Nothing may have been used yet."""
        self.per, self._slot = per, per / SLOTS

    def used(self, now: float) -> float:
        """What was used in the last span, as far as it still counts."""
        if self.per == math.inf:
            return self.used_in_all
        # Nothing is forgotten here: `room` asks of a time ahead, and what counts no more then does so until it comes.
        first = self._index(now) - SLOTS
        return math.fsum(amount for index, amount in self._slots if index >= first)

    def wait(self, now: float, amount: float) -> float:
        """The seconds until so much may be used; infinite where it will not be as things are."""
        if amount > self.most * (1 + _NEARLY):
            return math.inf
        return max(self._pause(now), self._until_free(now, amount))

    def take(self, now: float, amount: float) -> None:
        """Count so much as used now, even beyond what may be used."""
        self._count(now, amount)
        if self.per != math.inf and self.most > 0:
            self._free_at = max(self._free_at, now - self.slack) + amount * self.per / self.most

    def settle(self, at: float, now: float, more: float) -> None:
        """Correct what was taken at the time `at`: it has turned out to be more, or less where `more` is negative."""
        if self.per == math.inf:
            self.used_in_all += more
            return
        if self.most > 0:
            self._free_at += more * self.per / self.most
        if more >= 0:
            self._count(now, more)
            return
        self.used_in_all += more
        index = self._index(at)
        for slot in self._slots:
            if slot[0] == index:
                slot[1] = max(0.0, slot[1] + more)

    def catch_up(self, amount: float) -> None:
        """Let so much be used beyond the even pace, as far as the span has it."""
        if self.per != math.inf and self.most > 0:
            self._free_at -= amount * self.per / self.most

    def room(self, now: float, amount: float, ahead: float) -> float:
        """How often such an amount may be used in the next `ahead` seconds, about."""
        free = max(0.0, self.most - self.used(now + ahead))
        if self.per == math.inf or amount <= 0:
            return math.inf if amount <= 0 else free / amount
        pace = (now + ahead - max(self._free_at, now - self.slack)) * self.most / self.per
        return max(0.0, min(free, pace)) / amount

    def counted(self) -> list[tuple[float, float]]:
        """What was used, with the times until which it counts."""
        return [(amount, (index + SLOTS + 1) * self._slot) for index, amount in self._slots]

    @property
    def slack(self) -> float:
        """The seconds that use may be late by and catch up with."""
        return max(LEAST_SLACK, SLACK * self.per)

    def _count(self, now: float, amount: float) -> None:
        self.used_in_all += amount
        if self.per == math.inf:
            return
        index = self._index(now)
        if self._slots and self._slots[-1][0] == index:
            self._slots[-1][1] += amount
        else:
            self._forget(index - SLOTS)
            self._slots.append([index, amount])

    def _forget(self, first: int) -> None:
        slots = self._slots
        while slots and slots[0][0] < first:
            slots.popleft()

    def _pause(self, now: float) -> float:
        return max(0.0, self._free_at - now) if self.per != math.inf else 0.0

    def _until_free(self, now: float, amount: float) -> float:
        """The seconds until enough of what was used counts no more."""
        over = self.used(now) + amount - self.most * (1 + _NEARLY)
        if over <= 0:
            return 0.0
        if self.per == math.inf:
            return math.inf
        self._forget(self._index(now) - SLOTS)
        for index, used in self._slots:
            over -= used
            if over <= 0:
                # A little later, so that the time is past the part in spite of rounding.
                return max(0.0, (index + SLOTS + 1) * self._slot * (1 + _NEARLY) - now)
        return math.inf

    def _index(self, now: float) -> int:
        return math.floor(now / self._slot)

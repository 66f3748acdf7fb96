"""What one container does about the limits of its run: it reports what it holds, follows the leader, or leads."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import structs

from ...kernel.calls.limit_meter import Meter
from .limit_ledger import EXPIRY_SECONDS, LEASE_SECONDS, Holding, LimitGrant, LimitLedger, LimitReport, read_amounts

# Each beat is a record of each container that all read. With fewer beats, calls would wait longer for what others do
# not use.
BEAT_SECONDS = 0.15
"""How often a container reports, and the leader grants."""
# More than two beats, so that one grant that comes late does not change the leader.
SILENCE_SECONDS = 0.4
"""Seconds without a grant after which the first of the other containers leads. Each further container waits a beat
longer."""
# With more, a container that is idle by turns would keep much from the others; with less, growth would take many beats.
_GROWTH = 1.25
"""A container in which no call waits wants so many times what it has used, so that more calls could begin at once."""
_SPARE = 0.02
"""The share of a limit, or of what is left of a budget, that such a container wants besides."""
_LITTLE = 0.1
"""A grant of less than this share of what is held is used at once: others have used so much less lately."""
_REMEMBERED = 100
"""How many of the last reports have their times kept. The lease of an older one has ended long ago."""
_SPENDING_SECONDS = 3.0
"""A container holds as much of a budget as it spends in so many seconds: what it holds is lost if it dies."""


class Leased(Protocol):
    """What lets calls of a process begin within a limit, as far as leases are concerned: see `Admission`."""

    lease_ends: float
    """The time from which on no call begins."""

    @property
    def name(self) -> str:
        """The name of the limit."""
        ...

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while meters are read or changed."""
        ...

    @property
    def most(self) -> Mapping[str, float]:
        """What the limit allows of each amount in all processes."""
        ...

    @property
    def meters(self) -> Mapping[str, Meter]:
        """What may be used of each amount here."""
        ...

    @property
    def per(self) -> float:
        """The seconds of a span."""
        ...

    @property
    def needs(self) -> Mapping[str, float]:
        """What the first call that waits needs of each amount; nothing where none waits."""
        ...

    def set_spent_by_all(self, spent: float) -> None:
        """Set how much of the budget is spent in all processes."""
        ...


class LimitBoard:
    """The limits of a run, as one container sees them. Whoever writes its records to the stream of the run calls `beat`
    every BEAT_SECONDS, and `read` for each record in the order of the stream, its own among them. Times are those of
    the clock that the meters have; nothing here waits."""

    def __init__(
        self, run: str, container: int, limits: Sequence[Leased], new_id: Callable[[], str], now: float
    ) -> None:
        self._run, self._container, self._new_id = run, container, new_id
        self._limits = {limit.name: limit for limit in limits}
        self._amounts = read_amounts((one.name, one.most, one.per) for one in limits)
        self._number = 0
        self._sent: dict[int, float] = {}
        self._lease_ends = -math.inf
        self._held: dict[str, float] = {}
        self._target: dict[str, float] = {}
        self._granted: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._spent: dict[str, tuple[float, float]] = {}
        self.begin(now)

    def begin(self, now: float) -> None:
        """Start anew, without records and without any part: the container starts, or has missed records."""
        self.ledger = LimitLedger(self._run, self._amounts)
        self._process = self._new_id()
        self._began = self._granted_at = now
        self._written: LimitGrant | None = None
        self._begin_lease()

    @property
    def leads(self) -> bool:
        """Whether this container is the leader, which grants parts to all."""
        return self.ledger.term > 0 and self.ledger.leader == self._process

    def beat(self, now: float) -> list[LimitReport | LimitGrant]:
        """The records to write now."""
        records: list[LimitReport | LimitGrant] = [self._report(now)]
        if self.leads and self._written is None:
            self._written = self.ledger.grant(now)
            records.append(self._written)
        elif self._may_lead(now):
            self._granted_at = now  # or it would claim again before it has read this one
            self._written = self.ledger.claim(self._process)
            records.append(self._written)
        return records

    def leave(self, now: float) -> LimitReport:
        """The last record of a container that ends in good order: no call begins any more, and what it holds and has
        not used is free for others, of a budget too."""
        self._lease_ends, self._target = -math.inf, dict.fromkeys(self._target, 0.0)
        for limit in self._limits.values():
            with limit.lock:
                limit.lease_ends = -math.inf
        return structs.replace(self._report(now), leaves=True)

    def read(self, record: LimitReport | LimitGrant, now: float) -> None:
        """Follow a record of the stream: a report of a container, or a grant of the leader."""
        if isinstance(record, LimitReport):
            self.ledger.hear(record, now)
            return
        if not self.ledger.follow(record, now, own=record == self._written):
            return
        # Any grant counts, whoever leads: only silence calls for another leader.
        self._granted_at = now
        if record == self._written or record.leader != self._process:
            self._written = None
        # What was used meanwhile is counted by the leader as all that was held: to go on under that name would use it
        # twice.
        if self._holder in record.expired:
            self._begin_lease()
            return
        self._take(record)

    def _may_lead(self, now: float) -> bool:
        """Whether the leader is silent and this container is the next to lead: it has read for so long that it knows
        all holders."""
        others = [one for one in self.ledger.containers if one >= 0]
        rank = others.index(self._container) if self._container in others else len(others)
        silent = now - self._granted_at > SILENCE_SECONDS + rank * BEAT_SECONDS
        return silent and now - self._began > EXPIRY_SECONDS

    def _begin_lease(self) -> None:
        """Begin as a holder of a new name that holds nothing. What the old holder has held is dealt with by the
        leader."""
        self._holder, self._number, self._lease_ends = self._new_id(), 0, -math.inf
        self._sent.clear()
        for limit in self._limits.values():
            with limit.lock:
                limit.lease_ends = -math.inf
                for amount, meter in limit.meters.items():
                    key, budget = f"{limit.name}/{amount}", meter.per == math.inf
                    # What is spent of a budget was granted before, and stays so.
                    meter.most = meter.used_in_all if budget else 0.0
                    self._before[key] = meter.used_in_all
                    self._held[key] = self._target[key] = self._granted[key] = 0.0

    def _take(self, grant: LimitGrant) -> None:
        """Take what was granted to this container, and renew its lease as far as its reports were heard."""
        more, targets = grant.more.get(self._holder, {}), grant.targets.get(self._holder, {})
        heard = grant.heard.get(self._holder)
        if heard is not None and heard in self._sent:
            self._lease_ends = max(self._lease_ends, self._sent[heard] + LEASE_SECONDS)
            for number in [number for number in self._sent if number < heard]:
                del self._sent[number]
        for limit in self._limits.values():
            with limit.lock:
                limit.lease_ends = self._lease_ends
                for amount, meter in limit.meters.items():
                    key = f"{limit.name}/{amount}"
                    self._held[key] += more.get(key, 0.0)
                    self._granted[key] += more.get(key, 0.0)
                    self._target[key] = targets.get(key, self._target[key])
                    self._set_most(key, meter)
                    if more.get(key, 0.0) < _LITTLE * self._held[key]:
                        meter.catch_up(more.get(key, 0.0))
            if "budget" in limit.most and grant.spent:
                limit.set_spent_by_all(grant.spent.get(f"{limit.name}/budget", 0.0))

    def _set_most(self, key: str, meter: Meter) -> None:
        # The smaller one: what is to be given back is not used from now on, though the leader has yet to read of it.
        most = min(self._held[key], self._target[key])
        meter.most = most + self._before[key] if meter.per == math.inf else most

    def _report(self, now: float) -> LimitReport:
        self._number += 1
        # The lease runs from when the report was sent, not from when its grant came: the leader counts from later, so
        # it never ends a lease before its holder does.
        self._sent[self._number] = now
        self._sent.pop(self._number - _REMEMBERED, None)
        holdings: dict[str, Holding] = {}
        for limit in self._limits.values():
            needs = limit.needs
            with limit.lock:
                for amount, meter in limit.meters.items():
                    key = f"{limit.name}/{amount}"
                    used = self._used(key, meter, now)
                    if self._held[key] > self._target[key]:  # give back what was not used
                        self._held[key] = max(self._target[key], min(self._held[key], used))
                    self._set_most(key, meter)
                    wants = self._wants(key, meter, limit.most[amount], needs.get(amount), used, now)
                    spent = meter.used_in_all - self._before[key]
                    holdings[key] = Holding(self._held[key], spent, wants, needs.get(amount, 0.0), self._granted[key])
        return LimitReport(self._run, self._container, self._holder, self._number, holdings)

    def _used(self, key: str, meter: Meter, now: float) -> float:
        """What counts of what was used since the lease began."""
        if meter.per == math.inf:
            return meter.used_in_all - self._before[key]
        return meter.used(now)

    def _wants(self, key: str, meter: Meter, most: float, needs: float | None, used: float, now: float) -> float:
        if meter.per != math.inf:
            return most if needs is not None else min(most, _GROWTH * used + _SPARE * most)
        (before, at), self._spent[key] = self._spent.get(key, (0.0, now - BEAT_SECONDS)), (used, now)
        a_second = (used - before) / max(BEAT_SECONDS, now - at)  # a report may be late
        left = max(0.0, most - self.ledger.spent.get(key, 0.0))
        ahead = max(a_second * _SPENDING_SECONDS, 2 * (needs or 0.0), _SPARE * left)
        return min(most, used + ahead)

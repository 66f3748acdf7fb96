"""Who of the containers of a run holds which part of a limit: what each of them reports, and what one of them grants.

Parts are conserved. A container that has more than it should gives back what it has not used in the last span, and only
then another is granted it. So no span has more than the limit, whatever parts have moved. All read the same records in
the same order: whoever leads next knows what was granted before.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from ...kernel.calls.limit_meter import SLOTS, Meter

LEASE_SECONDS = 1.0
"""A container may use what it holds for so long after its last report."""
EXPIRY_SECONDS = 1.1
"""After so long without a report a container counts as gone, and holds nothing any more. It is longer than a lease,
since clocks differ."""
QUIET_SECONDS = 0.5
"""Seconds without any record after which the stream, or its reader, is taken to have stood still: the leader alone
writes several times as often. No container counts as silent in that time."""
_WORTH = 0.02
"""A part that is smaller than this share of a limit, or of what is left of a budget, is not moved from one container to
another."""
_MOST_EXPIRED = 1_000
"""How many of the holders that have expired are known, the last ones. A process that stood still may write as one."""
_LONGEST_TURN = 60.0
"""Seconds, at most, for which one container is the first to have what it needs. Then it is the turn of another."""
_HALVINGS = 60
"""The level of equal shares is found by so many halvings of its range: to the last digit of a float."""


class Holding(Struct, frozen=True):
    """What a container holds of an amount: its `capacity`, of which it has `used` so much since its start, by the
    grants so far, which add up to `granted`. It `wants` so much in all, and `needs` so much for its next call."""

    capacity: float
    used: float
    wants: float
    needs: float
    granted: float


class LimitReport(Struct, frozen=True, tag="report"):
    """What a container of a run holds of its limits. `holder` is an id of its process, and another once it has expired;
    `number` counts its reports. One that `leaves` makes no calls any more."""

    run: str
    container: int
    holder: str
    number: int
    holdings: dict[str, Holding]
    leaves: bool = False


class LimitGrant(Struct, frozen=True, tag="grant"):
    """What the leader of a run grants: `more` to holders, by amount. `heard` has the numbers of the last reports, up to
    which leases are renewed, and `targets` what each should have. What the holders that are `expired` have used lately
    is among the `ghosts`: how much counts for how many seconds more, below 0 for good. `spent` is what all have used
    since the begin of the run. The grants of a term after which a higher one has begun are void."""

    run: str
    term: int
    leader: str
    heard: dict[str, int] = {}
    more: dict[str, dict[str, float]] = {}
    targets: dict[str, dict[str, float]] = {}
    expired: tuple[str, ...] = ()
    ghosts: dict[str, list[tuple[float, float]]] = {}
    spent: dict[str, float] = {}


@dataclass(slots=True)
class _Part:
    """A part of an amount that a holder has, as its reports and the grants since tell."""

    used_lately: Meter
    capacity: float = 0.0
    granted: float = 0.0
    used: float = 0.0
    wants: float = 0.0
    needs: float = 0.0


@dataclass(slots=True)
class _Holder:
    container: int
    number: int = 0
    heard_at: float = 0.0
    leaves: bool = False
    waited_for: bool = False
    """Whether a gap in the stream has come since it was heard."""
    parts: dict[str, _Part] = field(default_factory=dict)


class LimitLedger:
    """What is known of the parts of all limits of a run from its records, in the order in which they were written.
    `amounts` has what may be used in how many seconds, infinite for a budget. Times are seconds of one clock."""

    def __init__(self, run: str, amounts: Mapping[str, tuple[float, float]]) -> None:
        self._run, self._amounts = run, amounts
        self.term, self.leader = 0, ""
        self.spent: Mapping[str, float] = {}
        """What all containers have used of each amount since the begin of the run, as of the last grant."""
        self._holders: dict[str, _Holder] = {}
        self._expired: dict[str, None] = {}
        self._ghosts: dict[str, dict[int, float]] = {amount: {} for amount in amounts}
        self._granted_ghosts = self._ghosts
        self._last: LimitGrant | None = None
        self._read_at = math.inf

    @property
    def containers(self) -> list[int]:
        """The containers that hold a part, in order."""
        return sorted({holder.container for holder in self._holders.values()})

    def hear(self, report: LimitReport, now: float) -> None:
        """Take in what a container reports, read at this time."""
        self._listen(now)
        if report.run != self._run or report.holder in self._expired:
            return
        holder = self._holders.setdefault(report.holder, _Holder(report.container))
        holder.container = report.container
        if report.number <= holder.number:
            return  # the same, which has arrived twice
        holder.number, holder.heard_at, holder.leaves = report.number, now, report.leaves
        holder.waited_for = False
        for amount, (most, per) in self._amounts.items():
            holding = report.holdings.get(amount)
            if holding is None:
                continue
            part = holder.parts.setdefault(amount, _Part(Meter(most, per)))
            # What was granted since it has reported is on its way.
            part.granted = max(part.granted, holding.granted)
            part.capacity = holding.capacity + part.granted - holding.granted
            part.used_lately.take(now, max(0.0, holding.used - part.used))
            part.used, part.wants, part.needs = max(part.used, holding.used), holding.wants, holding.needs

    def follow(self, grant: LimitGrant, now: float, *, own: bool = False) -> bool:
        """Take in what a leader grants, or this container its `own` one. Returns False for what is void."""
        self._listen(now)
        later = grant.term > self.term
        if grant.run != self._run or not (later or (grant.term == self.term and grant.leader == self.leader)):
            return False
        if grant == self._last:  # it has arrived twice: a new grant has heard later reports, at least the leader's
            return False
        self.term, self.leader, self._last = grant.term, grant.leader, grant
        for holder in grant.expired:
            self._holders.pop(holder, None)
            self._expired[holder] = None
        # A report of one that is forgotten would count once more, of a budget for good: less is used then, never more.
        while len(self._expired) > _MOST_EXPIRED:
            del self._expired[next(iter(self._expired))]
        for holder, granted in grant.more.items():
            for amount in granted.keys() & self._amounts.keys():  # another version of the pipeline may have others
                more, known = granted[amount], self._holders.setdefault(holder, _Holder(-1, heard_at=now))
                part = known.parts.setdefault(amount, _Part(Meter(*self._amounts[amount])))
                part.granted += more
                part.capacity += more
        if grant.spent:  # else a term begins
            self.spent = grant.spent
            if own:  # by this clock
                self._ghosts = self._granted_ghosts
                return True
            for amount in grant.ghosts.keys() & self._amounts.keys():
                self._ghosts[amount] = {}
                for much, left in grant.ghosts[amount]:
                    self._haunt(amount, much, math.inf if left < 0 else now + left)
        return True

    def _listen(self, now: float) -> None:
        """Note that a record is read. Time in which no record could be read is not counted as silence of the
        containers: else each would lose what it holds of a budget whenever brokers stand still. A container that is not
        heard after such a gap counts as silent in the gaps that follow: else none would ever be found dead where all
        reads are late."""
        if (gap := now - self._read_at) > QUIET_SECONDS:
            for holder in self._holders.values():
                holder.heard_at += gap - QUIET_SECONDS if holder.waited_for else gap
                holder.waited_for = True
        self._read_at = now

    def claim(self, leader: str) -> LimitGrant:
        """What begins a term of another leader. It grants nothing more: what others have granted may be on its way."""
        heard = {id: one.number for id, one in self._holders.items()}
        return LimitGrant(run=self._run, term=self.term + 1, leader=leader, heard=heard)

    def grant(self, now: float) -> LimitGrant:
        """What the leader grants now. It must have read all that it has granted before."""
        listened = min(now, self._read_at + QUIET_SECONDS)
        expired = tuple(id for id, one in self._holders.items() if listened - one.heard_at > EXPIRY_SECONDS)
        left = {id: one for id, one in self._holders.items() if id not in expired}
        ghosts = {amount: _present(known, self._amounts[amount][1], now) for amount, known in self._ghosts.items()}
        for id in expired:
            self._bury(self._holders[id], ghosts)
        self._granted_ghosts = ghosts
        more: dict[str, dict[str, float]] = {}
        targets: dict[str, dict[str, float]] = {}
        shown: dict[str, list[tuple[float, float]]] = {}
        spent: dict[str, float] = {}
        for amount, (_, per) in self._amounts.items():
            shown[amount] = _shown(ghosts[amount], per, now)
            taken = math.fsum(much for much, _ in shown[amount])
            parts = {id: one.parts[amount] for id, one in left.items() if amount in one.parts}
            spent[amount] = taken + math.fsum(part.used for part in parts.values())
            # What is granted to one that leaves would be lost to all.
            taken += math.fsum(part.capacity for id, part in parts.items() if left[id].leaves)
            staying = {id: part for id, part in parts.items() if not left[id].leaves}
            for id, (target, given) in self._divide(amount, taken, staying, now).items():
                targets.setdefault(id, {})[amount] = target
                if given > 0:
                    more.setdefault(id, {})[amount] = given
        heard = {id: one.number for id, one in left.items()}
        return LimitGrant(self._run, self.term, self.leader, heard, more, targets, expired, shown, spent)

    def _divide(
        self, amount: str, taken: float, parts: Mapping[str, _Part], now: float
    ) -> dict[str, tuple[float, float]]:
        """How much each should have of what is not taken by those that are gone or leave, and how much more it is given
        now."""
        most, per = self._amounts[amount]
        turn = int(now / min(max(per, LEASE_SECONDS), _LONGEST_TURN))
        wanted = {id: (part.wants, part.needs) for id, part in parts.items()}
        free = most - taken - math.fsum(part.capacity for part in parts.values())
        spent = taken + math.fsum(part.used for part in parts.values()) if per == math.inf else 0.0
        # Of a budget ever smaller: else what idle containers hold of it would never be used.
        worth = _WORTH * max(0.0, most - spent)
        found: dict[str, tuple[float, float]] = {}
        # What is held of a budget is lost with the container, so none holds what it does not want.
        for id, share in fair_shares(most - taken, wanted, turn, whole=per != math.inf).items():
            has = parts[id].capacity
            target = has if 0 < has - share <= worth else share
            given = max(0.0, min(free, target - has))
            free -= given
            found[id] = target, given
        return found

    def _haunt(self, amount: str, much: float, until: float) -> None:
        per = self._amounts[amount][1]
        slot = 0 if per == math.inf else math.ceil(until / (per / SLOTS))
        self._ghosts[amount][slot] = self._ghosts[amount].get(slot, 0.0) + much

    def _bury(self, holder: _Holder, ghosts: dict[str, dict[int, float]]) -> None:
        """Count as used what a holder that is gone has used, and what it may have used after its last report."""
        for amount, part in holder.parts.items():
            per, known = self._amounts[amount][1], ghosts[amount]
            if per == math.inf:
                known[0] = known.get(0, 0.0) + max(part.capacity, part.used)
                continue
            slot = per / SLOTS
            for much, until in _left_behind(part, per, holder.heard_at + EXPIRY_SECONDS):
                index = math.ceil(until / slot)
                known[index] = known.get(index, 0.0) + much


def _left_behind(part: _Part, per: float, lapsed: float) -> list[tuple[float, float]]:
    """What still counts of a part whose lease has lapsed, in amounts with the time until which each counts: what was
    reported, and what may have been used since then in place of what counts no more."""
    reported = part.used_lately.counted()
    # What was reported was used so much earlier, at most: a report tells of the time since the one before.
    surely = math.fsum(much for much, until in reported if until - per / SLOTS > lapsed + 2 * EXPIRY_SECONDS)
    over = math.fsum(much for much, _ in reported) - min(surely, part.capacity)
    left = [*reported, (max(0.0, part.capacity - surely), lapsed + per)]
    for index, (much, until) in enumerate(left):  # in no span it has used more than it had
        cut = min(much, max(0.0, over))
        left[index], over = (much - cut, until), over - cut
    return left


def _present(ghosts: Mapping[int, float], per: float, now: float) -> dict[int, float]:
    """What still counts of those that are gone. The rest is forgotten, for one container may lead for months."""
    return {slot: much for slot, much in ghosts.items() if per == math.inf or slot * per / SLOTS > now}


def _shown(ghosts: Mapping[int, float], per: float, now: float) -> list[tuple[float, float]]:
    """What counts of those that are gone, each with the seconds for which it still does, below 0 for good."""
    if per == math.inf:
        return [(much, -1.0) for much in ghosts.values()]
    return [(much, until * per / SLOTS - now) for until, much in ghosts.items() if until * per / SLOTS > now]


def fair_shares(
    total: float, wanted: Mapping[str, tuple[float, float]], turn: int, *, whole: bool = True
) -> dict[str, float]:
    """How much of a total each should have, by what it wants and what its next call needs: as much as it wants, or an
    equal share if that is less, and at least what it needs. Where the total is less than all needs, they are met by
    turns. What nobody wants is divided equally if the `whole` is to be divided, and else is left over.

    >>> fair_shares(90.0, {"a": (100.0, 0.0), "b": (10.0, 0.0), "c": (100.0, 0.0)}, 0)
    {'a': 40.0, 'b': 10.0, 'c': 40.0}
    """
    ids = sorted(wanted)
    if not ids or total <= 0:
        return dict.fromkeys(ids, 0.0)
    ids = ids[turn % len(ids) :] + ids[: turn % len(ids)]
    floors, left = dict.fromkeys(ids, 0.0), total
    for id in ids:
        if wanted[id][1] <= left:
            floors[id] = wanted[id][1]
            left -= floors[id]

    def at(level: float) -> dict[str, float]:
        return {id: max(floors[id], min(wanted[id][0], level)) for id in ids}

    low, high = 0.0, total
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        low, high = (level, high) if math.fsum(at(level).values()) <= total else (low, level)
    shares = at(high if math.fsum(at(high).values()) <= total * (1 + 1e-12) else low)
    spare = max(0.0, total - math.fsum(shares.values())) / len(ids) if whole else 0.0
    return {id: round(share + spare, 9) for id, share in sorted(shares.items())}


def read_amounts(limits: Iterable[tuple[str, Mapping[str, float], float]]) -> dict[str, tuple[float, float]]:
    """The amounts of limits, by `NAME/AMOUNT`, given the name of each, its amounts, and its span in seconds.

    >>> read_amounts([("model", {"calls": 500, "budget": 20}, 60.0)])
    {'model/calls': (500, 60.0), 'model/budget': (20, inf)}
    """
    return {
        f"{name}/{amount}": (most, math.inf if amount == "budget" else per)
        for name, amounts, per in limits
        for amount, most in amounts.items()
    }

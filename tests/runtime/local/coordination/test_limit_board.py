"""Limits over containers, simulated: whatever dies, stands still or is late, no span has more than the limit."""

import heapq
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.runtime.kernel.calls.limit_meter import Meter
from fluvial.runtime.local.coordination.limit_board import BEAT_SECONDS, LimitBoard
from fluvial.runtime.local.coordination.limit_ledger import LimitGrant, LimitReport
from generators.how_many import examples

TICK = 0.02


class Limited:
    """What a container may use of a limit, in a simulation."""

    def __init__(self, most: Mapping[str, float], per: float) -> None:
        self.name, self.per, self.most = "service", per, most
        self.lease_ends = math.inf
        self.lock = nullcontext()
        self.meters = {name: Meter(amount, math.inf if name == "budget" else per) for name, amount in most.items()}
        self.needs: dict[str, float] = {}
        self.spent = 0.0

    def set_spent_by_all(self, spent: float) -> None:
        self.spent = spent


class Container:
    """A container that makes calls of `size` as fast as its limit lets it, up to `rate` of the amount in a second."""

    def __init__(self, number: int, limited: Limited, board: LimitBoard, rate: float, size: float) -> None:
        self.number, self.limited, self.board = number, limited, board
        self.rate, self.size = rate, size
        self.backlog, self.read = 0.0, 0
        self.paused_until = -math.inf
        self.dead = False

    def use(self, now: float) -> list[float]:
        self.backlog = min(self.backlog + self.rate * TICK, max(self.rate, self.size))
        used: list[float] = []
        while self.backlog >= self.size:
            waits = max(meter.wait(now, self.size) for meter in self.limited.meters.values())
            if waits > 0 or now >= self.limited.lease_ends:
                self.limited.needs = dict.fromkeys(self.limited.meters, self.size)
                return used
            for meter in self.limited.meters.values():
                meter.take(now, self.size)
            self.backlog -= self.size
            used.append(self.size)
        self.limited.needs = {}
        return used


class Run:
    """Containers and the stream between them, which delays what is written and what is read at random."""

    def __init__(self, seed: int, rates: list[float], most: Mapping[str, float], per: float, size: float) -> None:
        self.random, self.ids = Random(seed), count()
        self.most, self.per, self.size = most, per, size
        self.now, self.stream = 0.0, list[tuple[float, Any]]()
        self._on_the_way: list[tuple[float, int, Any]] = []
        self._beats = dict.fromkeys(range(len(rates)), 0.0)
        self.used: list[tuple[float, int, float]] = []
        self.containers = [self.container(number, rate) for number, rate in enumerate(rates)]

    def container(self, number: int, rate: float) -> Container:
        limited = Limited(self.most, self.per)
        board = LimitBoard("run", number, [limited], lambda: f"{number}-{next(self.ids)}", self.now)
        made = Container(number, limited, board, rate, self.size)
        made.read = len(self.stream)
        return made

    def until(self, end: float, event: Callable[[], None] = lambda: None) -> None:
        while self.now < end:
            self.now += TICK
            event()
            while self._on_the_way and self._on_the_way[0][0] <= self.now:
                _, _, record = heapq.heappop(self._on_the_way)
                self.stream.append((self.now + self.random.uniform(0, 0.02), record))
            for one in self.containers:
                if not one.dead and self.now >= one.paused_until:
                    self._turn(one)

    def _turn(self, one: Container) -> None:
        while one.read < len(self.stream) and self.stream[one.read][0] <= self.now:
            one.board.read(self.stream[one.read][1], self.now)
            one.read += 1
        if self.now >= self._beats[one.number]:
            self._beats[one.number] = self.now + BEAT_SECONDS
            for record in one.board.beat(self.now):
                self.write(record)
        self.used += [(self.now, one.number, amount) for amount in one.use(self.now)]

    def write(self, record: LimitReport | LimitGrant) -> None:
        at = self.now + self.random.uniform(0, 0.03)
        heapq.heappush(self._on_the_way, (at, next(self.ids), record))

    @property
    def leader(self) -> Container:
        return next(one for one in self.containers if one.board.leads and not one.dead)

    def in_all(self, begin: float, end: float, *numbers: int) -> float:
        chosen = numbers or range(len(self._beats))
        return math.fsum(amount for at, number, amount in self.used if begin <= at < end and number in chosen)

    def most_in_a_span(self) -> float:
        """The most that was used in any span."""
        first, inside, most = 0, 0.0, 0.0
        for at, _, amount in self.used:
            inside += amount
            while self.used[first][0] <= at - self.per:
                inside -= self.used[first][2]
                first += 1
            most = max(most, inside)
        return most


@pytest.mark.parametrize("per", [2.0, 20.0])
def test_four_containers_use_nearly_all_also_when_the_leader_dies(per: float) -> None:
    run = Run(1, [1000.0] * 4, {"tokens": 100.0 * per}, per, size=1.0)
    run.until(3 + per)
    assert run.in_all(3, 3 + per) >= 0.95 * 100 * per
    run.leader.dead = True
    died = run.now
    run.until(died + per + 4 + per)
    assert run.in_all(died + per + 4, run.now) >= 0.95 * 100 * per
    if per > 10:  # the part of the leader is free again as what it has used counts no more
        assert run.in_all(died, died + per) >= 0.9 * 100 * per
    assert run.most_in_a_span() <= 100 * per + 1e-6


def test_what_some_do_not_use_others_have() -> None:
    run = Run(2, [1000.0, 5.0, 0.0, 1000.0], {"calls": 200.0}, 2.0, size=1.0)
    run.until(12.0)
    assert run.in_all(6, 12) >= 0.93 * 600
    assert run.in_all(6, 12, 1) >= 28
    assert abs(run.in_all(6, 12, 0) - run.in_all(6, 12, 3)) < 60
    run.containers[2].rate = 1000.0
    run.until(24.0)
    assert run.in_all(18, 24, 2) >= 0.25 * 600
    assert run.in_all(18, 24) >= 0.93 * 600
    assert run.most_in_a_span() <= 200 + 1e-6


def test_a_call_that_needs_more_than_an_equal_part_has_its_turn() -> None:
    run = Run(3, [400.0] * 4, {"tokens": 400.0}, 4.0, size=150.0)
    run.until(40.0)
    assert all(run.in_all(0, 40, number) > 0 for number in range(4))
    assert run.most_in_a_span() <= 400 + 1e-6


def test_a_container_alone_leads_itself() -> None:
    run = Run(4, [1000.0], {"calls": 50.0}, 1.0, size=1.0)
    run.until(10.0)
    assert run.in_all(3, 10) >= 0.95 * 350


def test_a_lease_that_is_not_renewed_grants_nothing() -> None:
    run = Run(5, [1000.0] * 2, {"calls": 100.0}, 1.0, size=1.0)
    run.until(5.0)
    for one in run.containers:
        one.read = 1 << 30  # hears nothing any more
    run.until(6.1)
    before = len(run.used)
    run.until(9.0)
    assert len(run.used) == before


def test_a_budget_is_passed_by_one_call_of_each_container_at_most_and_survives_them() -> None:
    run = Run(6, [40.0] * 4, {"budget": 300.0, "calls": 4000.0}, 1.0, size=1.0)
    run.until(3.0)
    run.containers[0].dead = True
    run.until(5.0)
    run.containers.append(run.container(0, 40.0))
    run.until(30.0)
    assert 300 * 0.85 <= run.in_all(0, 30) <= 304
    assert all(one.limited.spent >= 299 for one in run.containers if not one.dead)


def test_what_is_wanted_of_a_budget_goes_by_the_time_between_reports() -> None:
    limited = Limited({"budget": 1000.0}, math.inf)
    board = LimitBoard("run", 0, [limited], lambda: "id", 0.0)

    def wanted(now: float) -> float:
        limited.meters["budget"].take(now, 30)
        report = board.beat(now)[0]
        assert isinstance(report, LimitReport)
        holding = report.holdings["service/budget"]
        return holding.wants - holding.used

    assert wanted(BEAT_SECONDS) == pytest.approx(600)  # 200 a second
    assert wanted(BEAT_SECONDS + 3) == pytest.approx(30)  # 10 a second


def test_a_container_holds_little_more_of_a_budget_than_it_spends_in_some_seconds() -> None:
    run = Run(9, [40.0] * 3, {"budget": 6000.0}, 1.0, size=1.0)
    for second in range(3, 12):
        run.until(second)
        for one in run.containers:
            budget = one.limited.meters["budget"]
            assert budget.most - budget.used_in_all <= 300
    assert run.in_all(3, 11) >= 900  # all that they would spend


def test_who_ends_in_good_order_gives_back_what_it_holds_of_a_budget() -> None:
    run = Run(10, [40.0] * 3, {"budget": 900.0}, 1.0, size=1.0)
    run.until(4.0)
    leaver = run.leader
    used = leaver.limited.meters["budget"].used_in_all
    run.write(leaver.board.leave(run.now))
    leaver.dead = True
    run.until(30.0)
    assert leaver.limited.meters["budget"].used_in_all == used
    assert 898 <= run.in_all(0, 30) <= 902


def test_nothing_of_a_span_is_granted_to_who_ends() -> None:
    run = Run(11, [5.0, 0.5], {"calls": 200.0}, 20.0, size=1.0)
    run.until(6.0)
    leaver = run.containers[1]
    run.write(leaver.board.leave(run.now))
    leaver.dead = True
    run.until(8.0)
    run.containers[0].rate = 1000.0
    run.until(26.0)
    assert run.in_all(10, 26) >= 0.85 * 160
    assert run.most_in_a_span() <= 200 + 1e-6


def test_idle_containers_keep_nothing_of_a_budget_that_others_spend() -> None:
    run = Run(8, [40.0, 0.0, 0.0], {"budget": 300.0}, 1.0, size=1.0)
    run.until(30.0)
    assert 298 <= run.in_all(0, 30) <= 300


FATES = st.lists(
    st.tuples(st.floats(1, 12), st.integers(0, 3), st.sampled_from(["dies", "stands", "again", "idles", "wants"])),
    max_size=8,
)


@settings(max_examples=examples(400, least=12), deadline=None)
@given(st.integers(0, 1 << 20), FATES, st.sampled_from([0.7, 2.0, 5.0]), st.sampled_from([1.0, 3.0]))
def test_no_span_has_more_whatever_happens(
    seed: int, fates: list[tuple[float, int, str]], per: float, size: float
) -> None:
    run = Run(seed, [300.0] * 4, {"tokens": 60.0 * per}, per, size)
    left = sorted(fates)

    def happen() -> None:
        while left and left[0][0] <= run.now:
            _, number, fate = left.pop(0)
            one = next((one for one in run.containers if one.number == number and not one.dead), None)
            if fate == "again" and one is None:
                run.containers.append(run.container(number, 300.0))
            elif one is not None and fate == "dies":
                one.dead = True
            elif one is not None and fate == "stands":
                one.paused_until = run.now + run.random.uniform(0.1, 4)
            elif one is not None:
                one.rate = 0.0 if fate == "idles" else 300.0

    run.until(16.0, happen)
    assert run.most_in_a_span() <= 60 * per + 1e-6
    if any(not one.dead and one.rate and one.paused_until < 12 - per for one in run.containers):
        assert run.in_all(16 - per, 16) > 0


def test_records_of_another_run_and_of_former_terms_are_void() -> None:
    run = Run(7, [10.0] * 2, {"calls": 10.0}, 1.0, size=1.0)
    run.until(4.0)
    board = run.containers[0].board
    term = board.ledger.term
    assert not board.ledger.follow(LimitGrant(run="other", term=99, leader="x"), 4.0)
    assert not board.ledger.follow(LimitGrant(run="run", term=term, leader="x"), 4.0)
    before = board.ledger.containers
    board.ledger.hear(LimitReport(run="other", container=9, holder="x", number=1, holdings={}), 4.0)
    assert board.ledger.containers == before

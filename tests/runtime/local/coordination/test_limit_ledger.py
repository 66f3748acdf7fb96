"""What is known of the parts of a limit, by the records of a run: fair shares, and what the dead leave behind."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.runtime.local.coordination.limit_ledger import (
    EXPIRY_SECONDS,
    QUIET_SECONDS,
    Holding,
    LimitGrant,
    LimitLedger,
    LimitReport,
    fair_shares,
)
from generators.how_many import examples

WANTED = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.floats(0, 200), st.one_of(st.just(0.0), st.floats(0, 60)))
)


@settings(max_examples=examples(1000, least=40))
@given(st.floats(0, 300), WANTED, st.integers(0, 9))
def test_fair_shares_are_all_of_the_total_and_what_one_does_not_want_others_have(
    total: float, wanted: dict[str, tuple[float, float]], turn: int
) -> None:
    shares = fair_shares(total, wanted, turn)
    assert shares.keys() == wanted.keys()
    assert math.isclose(sum(shares.values()), total if wanted else 0.0, abs_tol=1e-6)
    if sum(need for _, need in wanted.values()) == 0:
        wants = [want for want, _ in wanted.values()]
        level = max(shares.values(), default=0.0)
        assert all(shares[id] >= min(want, level) - 1e-6 for id, (want, _) in wanted.items() if sum(wants) >= total)


def test_the_one_whose_turn_it_is_has_what_it_needs() -> None:
    wanted = {"a": (100.0, 60.0), "b": (100.0, 60.0)}
    assert fair_shares(100.0, wanted, 0) == {"a": 60.0, "b": 40.0}
    assert fair_shares(100.0, wanted, 1) == {"a": 40.0, "b": 60.0}


def _ledger() -> LimitLedger:
    return LimitLedger("run", {"model/calls": (100.0, 10.0), "model/budget": (50.0, math.inf)})


def _report(number: int, capacity: float, used: float, granted: float, holder: str = "a") -> LimitReport:
    holding = Holding(capacity, used, 100.0, 0.0, granted)
    return LimitReport("run", 0, holder, number, {"model/calls": holding, "model/budget": holding})


def test_what_is_granted_is_known_before_it_is_reported() -> None:
    ledger = _ledger()
    ledger.hear(_report(1, 0, 0, 0), 0.0)
    assert ledger.follow(ledger.claim("leader"), 0.0)
    first = ledger.grant(0.1)
    assert first.more["a"] == {"model/calls": 100.0, "model/budget": 50.0}
    assert ledger.follow(first, 0.2, own=True)
    ledger.hear(_report(2, 0, 0, 0), 0.3)  # sent before it has read that
    assert ledger.grant(0.4).more == {}
    ledger.hear(_report(3, 60, 60, 100), 0.5)
    ledger.hear(_report(3, 0, 0, 100), 0.5)  # arrives twice
    assert ledger.grant(0.6).more["a"]["model/calls"] == 40.0


def test_a_grant_that_arrives_twice_counts_once() -> None:
    ledger = _ledger()
    ledger.hear(_report(1, 0, 0, 0), 0.0)
    ledger.follow(ledger.claim("leader"), 0.0)
    grant = ledger.grant(0.1)
    assert ledger.follow(grant, 0.2)
    assert not ledger.follow(grant, 0.3)
    ledger.hear(_report(2, 100, 60, 100), 0.4)
    ledger.hear(_report(1, 0, 0, 0, "b"), 0.4)
    ledger.hear(_report(3, 60, 60, 100), 0.5)
    assert ledger.grant(0.6).more["b"]["model/calls"] == 40.0


def test_what_the_dead_have_used_counts_on_and_a_budget_for_good() -> None:
    ledger = _ledger()
    ledger.hear(_report(1, 0, 0, 0), 0.0)
    ledger.follow(ledger.claim("leader"), 0.0)
    ledger.follow(ledger.grant(0.0), 0.0, own=True)
    ledger.hear(_report(2, 40, 30, 100), 0.1)
    now = 0.2 + EXPIRY_SECONDS
    for number, at in enumerate((now / 3, now / 1.5, now), 1):
        ledger.hear(_report(number, 0, 0, 0, "b"), at)
    grant = ledger.grant(now)
    assert grant.expired == ("a",)
    assert grant.more["b"]["model/calls"] <= 60
    other = _ledger()
    for one, own in ((ledger, True), (other, False)):
        one.hear(_report(1, 0, 0, 0, "b"), now)
        assert one.follow(grant, now, own=own)
    later = LimitGrant("run", 2, "other", spent={})
    assert other.follow(later, now + 1)
    for one in (ledger, other):
        one.hear(_report(4, grant.more["b"]["model/calls"], 0, grant.more["b"]["model/calls"], "b"), now + 20)
        again = one.grant(now + 20)
        assert again.ghosts["model/calls"] == []
        assert again.ghosts["model/budget"] == [(40.0, -1.0)]
        assert again.spent["model/budget"] == 40
        assert one.follow(again, now + 20, own=one is ledger)
        assert one._ghosts["model/calls"] == {}
    assert not other.follow(grant, now + 20)  # of a former term


def test_nobody_is_silent_while_no_record_can_be_read() -> None:
    ledger = _ledger()
    for holder in "ab":
        ledger.hear(_report(1, 0, 0, 0, holder), 0.0)
    ledger.follow(ledger.claim("leader"), 0.0)
    assert ledger.grant(60.0).expired == ()
    assert ledger.follow(ledger.grant(60.0), 60.0, own=True)
    assert ledger.grant(60.1).expired == ()
    for number in range(2, 12):
        now = 60 + 0.15 * number
        ledger.hear(_report(number, 50, 0, 50, "b"), now)
        assert ledger.grant(now).expired == (("a",) if now > 60 + EXPIRY_SECONDS else ())


def test_who_is_dead_is_found_though_all_reads_are_late() -> None:
    late, ledger = 4 * QUIET_SECONDS, _ledger()
    for holder in "ab":
        ledger.hear(_report(1, 0, 0, 0, holder), 0.0)
    found = list[tuple[str, ...]]()
    for number in range(2, 9):
        ledger.hear(_report(number, 0, 0, 0, "b"), number * late)
        found.append(ledger.grant(number * late).expired)
    assert (found[0], found[-1]) == ((), ("a",))


def test_those_that_have_expired_are_known_for_long_and_not_for_ever() -> None:
    ledger = _ledger()
    for term in range(1, 3_001):
        ledger.follow(LimitGrant("run", term, "leader", expired=(f"{term}",)), term)
    for holder in ("1", "2500", "3000"):
        ledger.hear(_report(1, 1, 0, 0, holder), 3_001.0)
    assert [*ledger.grant(3_001.0).heard] == ["1"]


def test_amounts_that_only_others_know_are_passed_over() -> None:
    ledger = _ledger()  # others have a later version of the pipeline
    grant = LimitGrant(
        run="run",
        term=1,
        leader="leader",
        more={"a": {"other/budget": 5.0, "model/calls": 40.0}},
        ghosts={"other/budget": [(2.0, -1.0)], "model/budget": [(3.0, -1.0)]},
        spent={"other/budget": 2.0, "model/budget": 3.0, "model/calls": 0.0},
    )
    assert ledger.follow(grant, 0.0)
    ledger.hear(_report(1, 0, 0, 0), 0.1)
    after = ledger.grant(0.2)
    assert after.more["a"] == {"model/calls": 60.0, "model/budget": 47.0}
    assert after.spent == {"model/calls": 0.0, "model/budget": 3.0}

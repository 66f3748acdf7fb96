"""The oracle against brute force, and the loop's sessions against the oracle."""

from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.constants import DEAR, GAP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.events import NOBODY, Event
from benchmarks.oracle import Verdict, expected, judge
from benchmarks.orders import Order, Payment
from benchmarks.references.spans import Sessions
from benchmarks.sources import BASE
from benchmarks.workloads import WORKLOADS, Score

times = st.integers(0, 4 * GAP).map(lambda at: BASE + at)
near = st.sampled_from([0, 1, MINUTE - 1, MINUTE, GAP - 1, GAP, GAP + 1, 2 * GAP, 2 * GAP + 1]).map(BASE.__add__)
clicks = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), times | near, st.integers(0, 2 * DEAR))


@st.composite
def inputs(draw: st.DrawFn) -> list[Event]:
    rows = draw(st.lists(clicks, max_size=12))
    return [Event(seq, user, "", page, at, cents, "", "") for seq, (user, page, at, cents) in enumerate(rows)]


@given(inputs())
def test_dear_events(events: list[Event]) -> None:
    found = expected("W1", events)
    assert len(found) == sum(event.cents >= DEAR for event in events)
    assert all(found[event.seq,][2] * MINUTE <= event.at for event in events if event.cents >= DEAR)


@given(inputs())
def test_minutes(events: list[Event]) -> None:
    for (user, start), (count, cents) in expected("W2", events).items():
        inside = [event.cents for event in events if event.user == user and start <= event.at < start + MINUTE]
        assert start % MINUTE == 0
        assert (count, cents) == (len(inside), sum(inside))
    assert sum(count for count, _ in expected("W2", events).values()) == len(events)


@given(inputs())
def test_pages(events: list[Event]) -> None:
    assert expected("W3", events) == {(e.page,): (sum(o.page == e.page for o in events),) for e in events}


def groups(events: list[Event]) -> list[set[int]]:
    """Events that a chain of short gaps joins, by joining two at a time for as long as there are two to join."""
    found = [{event.seq} for event in events]
    while True:
        joined = next(
            (
                (one, other)
                for one, other in combinations(found, 2)
                if any(abs(events[a].at - events[b].at) <= GAP for a in one for b in other)
            ),
            None,
        )
        if joined is None:
            return found
        found = [group for group in found if group not in joined] + [joined[0] | joined[1]]


@given(inputs())
def test_sessions(events: list[Event]) -> None:
    mine = [msgspec.structs.replace(event, user="a", seq=seq) for seq, event in enumerate(events)]
    wanted = {
        ("a", min(mine[seq].at for seq in group)): (len(group), sum(mine[seq].cents for seq in group))
        for group in groups(mine)
    }
    assert expected("W4", mine) == wanted


@given(inputs(), st.integers(0, OUT_OF_ORDER - 1))
def test_the_sessions_of_the_loop_are_those_of_the_oracle(events: list[Event], behind: int) -> None:
    ordered = sorted(events, key=lambda event: event.at + behind * (event.seq % 2))  # some are late, none too late
    sessions, found = Sessions(), list[tuple[str, list[int]]]()
    for event in ordered:
        sessions.add(event.user, event.at, event.cents)
        if event.at - OUT_OF_ORDER >= sessions.due:
            found.extend(sessions.over(event.at - OUT_OF_ORDER))
    found.extend(sessions.over(1 << 62))
    assert len(found) == len(expected("W4", events))
    assert {(user, span[0]): (span[2], span[3]) for user, span in found} == expected("W4", events)


names = st.sampled_from(["o1", "o2", "o3"])
moments = st.integers(0, 3 * WITHIN) | st.sampled_from([0, WITHIN - 1, WITHIN, WITHIN + 1])


def lists_of(kind: type[Order] | type[Payment]) -> st.SearchStrategy[list[Any]]:
    messages = st.builds(kind, order=names, at=moments.map(BASE.__add__))
    return st.lists(messages, unique_by=lambda message: message.order)


@given(lists_of(Order), lists_of(Payment))
def test_orders_and_their_payments(orders: list[Order], payments: list[Payment]) -> None:
    wanted = {
        (order.order,): (order.user, order.amount, payment.paid)
        for order in orders
        for payment in payments
        if order.order == payment.order and 0 <= payment.at - order.at <= WITHIN
    }
    assert expected("W6", orders, payments) == wanted


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([Score(0, 1), Score(1, 1)], Verdict(2, 0, 0, 0)),
        ([Score(1, 1), Score(0, 1), Score(0, 1)], Verdict(3, 0, 0, 0)),
        ([Score(0, 1)], Verdict(1, 1, 0, 0)),
        ([Score(0, 1), Score(1, 2)], Verdict(2, 0, 1, 0)),
        ([Score(0, 1), Score(1, 1), Score(2, 1)], Verdict(3, 0, 0, 1)),
        ([Score(0, 1), Score(1, 1), Score(-1, 7)], Verdict(3, 0, 0, 0)),  # a marker's
    ],
)
def test_a_verdict_counts_what_is_missing_wrong_or_extra(values: list[Score], verdict: Verdict) -> None:
    events = [Event(seq, "", "", "p", 0, 0, "", "") for seq in range(2)]
    found = judge("W5", expected("W5", events), map(msgspec.json.encode, values))
    assert found == verdict
    assert found.correct == (not (verdict.missing or verdict.wrong or verdict.extra))


def test_the_last_of_several_counts_is_the_one_that_counts() -> None:
    values = [{"page": "x", "count": count} for count in (1, 2, 1)] + [{"page": NOBODY, "count": 9}]
    events = [Event(seq, "", "", "x", 0, 0, "", "") for seq in range(2)]
    assert judge("W3", expected("W3", events), map(msgspec.json.encode, values)) == Verdict(4, 0, 0, 0)


def test_every_workload_has_an_oracle() -> None:
    assert all(expected(name, *workload.inputs(0)) == {} for name, workload in WORKLOADS.items())

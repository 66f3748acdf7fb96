"""Meters of limits: never more than the limit in any span of time, and nearly all of it where there is work."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.runtime.kernel.calls.limit_meter import SLOTS, Meter
from generators.how_many import examples

AMOUNTS = st.one_of(st.just(1.0), st.integers(1, 40).map(float), st.floats(0.1, 30))


def _most_in_a_span(taken: list[tuple[float, float]], per: float) -> float:
    """The most that was taken in any span which begins at a time of the list."""
    return max(sum(amount for at, amount in taken if begin <= at < begin + per) for begin, _ in taken)


@settings(max_examples=examples(1000, least=40))
@given(
    st.floats(5, 60),
    st.sampled_from([0.5, 1.0, 7.0, 60.0]),
    st.lists(st.tuples(AMOUNTS, st.floats(0, 3)), min_size=1, max_size=60),
    st.floats(0, 10_000),
)
def test_no_span_has_more_than_the_limit(
    most: float, per: float, asked: list[tuple[float, float]], start: float
) -> None:
    meter, now, taken = Meter(most, per), start, list[tuple[float, float]]()
    for amount, pause in asked:
        now += pause * per / 10
        meter.room(now, amount, 0.02)
        wait = meter.wait(now, amount)
        assert (wait == math.inf) == (amount > most)
        if wait < math.inf:
            now += wait
            for _ in range(3):  # by rounding the end of a part may be a moment later
                now += meter.wait(now, amount)
            assert meter.wait(now, amount) == 0
            meter.take(now, amount)
            taken.append((now, amount))
    assert not taken or _most_in_a_span(taken, per) <= most * (1 + 1e-6)


@settings(max_examples=examples(100, least=5))
@given(st.integers(10, 200), st.sampled_from([1.0, 60.0]))
def test_nearly_all_of_the_limit_is_used_and_evenly(most: int, per: float) -> None:
    meter, now, taken = Meter(most, per), 0.0, list[float]()
    while now < 5 * per:
        if wait := meter.wait(now, 1):
            now += wait
            continue
        meter.take(now, 1)
        taken.append(now)
    assert len(taken) >= 5 * most * 0.95
    for part in range(10):  # no burst, but for what may be caught up with
        begun = sum(part * per / 2 <= at < (part + 1) * per / 2 for at in taken)
        assert begun <= most * (0.5 + meter.slack / per) + 1


def test_what_is_settled_counts_for_what_comes_next() -> None:
    meter = Meter(100, per=10.0)
    meter.take(0.0, 90)
    meter.settle(0.0, 1.0, -80)
    assert meter.used(1.0) == 10
    assert meter.used_in_all == 10
    meter.settle(0.0, 1.0, 70)
    assert meter.used(1.0) == 80
    assert meter.wait(1.0, 30) > 7
    assert meter.wait(1.0, 101) == math.inf
    assert meter.used(1.0 + 10.2) == 0


def test_what_is_settled_late_is_not_given_back_twice() -> None:
    meter = Meter(100, per=1.0)
    meter.take(0.0, 90)
    assert meter.used(5.0) == 0
    meter.settle(0.0, 5.0, -90)
    assert meter.used(5.0) == 0


def test_an_infinite_span_never_frees_what_was_used() -> None:
    meter = Meter(10, per=math.inf)
    meter.take(0.0, 8)
    assert meter.wait(1e9, 2) == 0
    assert meter.wait(1e9, 3) == math.inf
    assert meter.room(1e9, 1, 0.1) == 2
    meter.settle(0.0, 1.0, -4)
    assert meter.wait(1e9, 3) == 0
    assert meter.room(1e9, 0, 0.1) == math.inf


def test_memory_is_bounded_by_the_parts_of_a_span() -> None:
    meter, now = Meter(100_000, per=1.0), 0.0
    for _ in range(30_000):
        now += meter.wait(now, 1) + 1e-4
        meter.take(now, 1)
        meter.used(now)
    assert len(meter._slots) <= SLOTS + 2


def test_what_may_begin_soon_may_not_begin_now() -> None:
    meter = Meter(10, per=0.1)
    meter.take(0.0, 10)
    assert meter.room(0.09, 1, ahead=0.02) == 10
    assert meter.used(0.09) == 10
    assert meter.wait(0.09, 1) > 0


def test_a_share_of_nothing_lets_nothing_begin() -> None:
    meter = Meter(10, per=1.0)
    meter.most = 0
    assert meter.wait(0.0, 1) == math.inf
    assert meter.room(0.0, 1, 0.1) == 0
    meter.take(0.0, 1)
    meter.settle(0.0, 0.0, 1)
    assert meter.used(0.0) == 2

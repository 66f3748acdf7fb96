"""Queues of calls: the order in which results are delivered, and what one queue leaves to the others."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.in_flight import InFlightMessage, InFlightQueue
from fluvial.runtime.kernel.calls.ordered_queues import OrderedQueues, share_of
from generators.how_many import examples

QUEUES = {name: InFlightQueue(name) for name in ("one", "two")}
STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from([b"a", b"b", None]), st.sampled_from([*QUEUES])), st.integers(0, 20)),
    max_size=60,
)
"""A call of a key and an input is submitted, or one of those that have begun ends."""


class Pool:
    """Queues, with the calls that have begun and those that were delivered."""

    def __init__(self, order: str, share: int) -> None:
        self.begun: list[Call] = []
        self.delivered: list[Call] = []
        self.queues = OrderedQueues(order, share, self.begun.append, self.delivered.append)

    def submit(self, key: bytes | None, start: str = "one") -> Call:
        call = Call(key, None, (0, (), InFlightMessage(0, (), QUEUES[start])))
        self.queues.submit(call)
        return call

    def end(self, number: int) -> None:
        if self.begun:
            self.queues.end(self.begun.pop(number % len(self.begun)))


@settings(max_examples=examples(200))
@given(STEPS, st.integers(1, 4))
def test_a_key_has_its_share_and_no_more_and_keeps_its_order(
    steps: list[tuple[bytes | None, str] | int], share: int
) -> None:
    pool = Pool("key", share)
    submitted: list[Call] = []
    for step in steps:
        if isinstance(step, int):
            pool.end(step)
        else:
            submitted.append(pool.submit(*step))
        left = [call for call in submitted if call not in pool.delivered]
        of_key = Counter(call.key for call in left if call.key is not None)
        outstanding = sum(min(number, share) for number in of_key.values()) + sum(call.key is None for call in left)
        assert (pool.queues.outstanding, sum(pool.queues.parked.values())) == (outstanding, len(left) - outstanding)
    while pool.begun:
        pool.end(-1)
    assert (pool.queues.outstanding, pool.queues.parked) == (0, {})
    for key in (b"a", b"b"):
        assert [c for c in pool.delivered if c.key == key] == [c for c in submitted if c.key == key]
    assert len(pool.delivered) == len(submitted)


def test_what_is_parked_is_counted_by_where_it_comes_from() -> None:
    pool = Pool("key", 1)
    for start in ("one", "one", "two", "two"):
        pool.submit(b"a", start)
    assert pool.queues.parked == {"one": 1, "two": 2}
    pool.end(0)
    assert pool.queues.parked == {"two": 2}


def test_once_no_others_come_all_begin() -> None:
    pool = Pool("key", 1)
    calls = [pool.submit(b"a") for _ in range(4)]
    pool.queues.begin_all()
    assert (pool.begun, pool.queues.outstanding, pool.queues.parked) == (calls, 4, {})
    pool.end(3)
    assert pool.delivered == []
    pool.end(0)
    assert pool.delivered == calls[:1]


def test_calls_without_order_and_in_the_order_of_the_input_have_no_share() -> None:
    for order in ("none", "input"):
        pool = Pool(order, 1)
        for _ in range(3):
            pool.submit(b"a")
        assert len(pool.begun) == 3


def test_nothing_that_was_forgotten_begins() -> None:
    pool = Pool("key", 1)
    for _ in range(2):
        pool.submit(b"a")
    pool.queues.clear()
    pool.end(0)
    assert (pool.begun, pool.queues.parked) == ([], {})


def test_a_share_is_half_of_the_pool_and_one_at_least() -> None:
    assert [share_of(number) for number in (1, 2, 3, 100)] == [1, 1, 2, 50]

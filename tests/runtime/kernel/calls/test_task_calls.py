"""How many messages a task takes, by what its pools have outstanding and parked."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.in_flight import InFlightMessage
from fluvial.runtime.kernel.calls.task_calls import TaskCalls


class Given:
    """A pool that tells what it is given."""

    def __init__(self, outstanding: int = 0, **parked: int) -> None:
        self.most_in_flight = 10
        self.in_flight = 3
        self.outstanding = outstanding
        self.parked = MappingProxyType(parked)
        self.did: list[str] = []
        self.allowance: int | None = None
        self.held_up = False
        self.at_once: int | None = None

    def submit(self, call: Call) -> None:
        raise AssertionError(call)

    def give_names(self, origin: Callable[[InFlightMessage], str]) -> None:
        raise AssertionError(origin)

    def flush(self) -> None:
        self.did.append("flush")

    def cancel(self) -> None:
        self.did.append("cancel")


def calls(*pools: Any, waiting: int = 0) -> TaskCalls:
    named: dict[str, Any] = {f"call-{number}": pool for number, pool in enumerate(pools)}
    return TaskCalls(named, ("one", "two"), lambda: waiting)


def test_the_fullest_pool_decides_and_what_waits_takes_room() -> None:
    both = calls(Given(12), Given(5), waiting=3)
    assert (both.room("one"), both.free, both.in_flight) == (5, 8, 6)


def test_there_is_no_less_than_no_room() -> None:
    assert (calls(Given(19), waiting=3).room("one"), calls(Given(30)).free) == (0, 0)


def test_an_input_whose_messages_are_parked_has_less_room_and_others_have_not() -> None:
    slow = calls(Given(5, one=8), Given(0))
    assert (slow.room("one"), slow.room("two"), slow.free) == (2, 15, 15)
    assert calls(Given(5, one=10)).room("one") == 0
    assert [calls(Given(5, one=10)).parks(one) for one in ("one", "two")] == [True, False]
    assert not slow.parks("one")


def test_an_operator_whose_messages_are_parked_emits_less() -> None:
    assert calls(Given(0, one=10, window=7)).free == 3
    assert calls(Given(0, window=12)).free == 0


def test_a_task_without_calls_takes_whatever_comes() -> None:
    assert calls().room("one") > 1_000_000


def test_all_pools_are_reported() -> None:
    pools = Given(), Given()
    both = calls(*pools)
    both.flush()
    both.cancel()
    assert [pool.did for pool in pools] == [["flush", "cancel"]] * 2


def test_a_limit_lets_less_be_taken_than_a_pool_has_room_for() -> None:
    limited = Given()
    limited.allowance = 3
    assert calls(Given(), limited).room("one") == calls(limited).free == 3
    assert calls(Given(19), limited).room("one") == 1
    assert calls(limited, waiting=3).room("one") == 3  # what waits for its order takes nothing of the limit
    assert calls(limited, waiting=18).room("one") == 2
    assert not calls(Given(), limited).held_up
    limited.held_up = True
    assert calls(Given(), limited).held_up


def test_messages_need_room_in_the_pools_that_they_reach_alone() -> None:
    near: Any = Given(12)
    far: Any = Given(20, one=3)
    some = TaskCalls(
        {"near": near, "far": far}, ("one", "two"), lambda: 0, lambda start: [near] if start == "one" else [near, far]
    )
    assert (some.room("one"), some.room("two"), some.free) == (8, 0, 0)

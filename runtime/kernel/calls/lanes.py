"""Lanes of calls: the order in which results are delivered, and the calls that wait since their lane is full.

A call that takes long holds back the results behind it in its lane. Without a bound these, and the calls behind them,
would fill the pool, and no call of another lane would begin. So a lane has a share of the pool. Calls beyond it are
parked: they take no room of others, and only the input that they come from is read no further once it has many.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .call import Call


class Lanes:
    """The calls of a pool that have been submitted and not delivered, each in the lane that `order` gives it. Calls of
    one lane are delivered in the order in which they were submitted.

    At most `share` calls of one key are `outstanding`: begun by `begin(call)`, and not passed to `deliver(call)` yet.
    `parked` counts the others, by the input or operator that their messages come from.
    """

    __slots__ = ("_begin", "_deliver", "_lane_of", "_lanes", "_share", "_waiting", "outstanding", "parked")

    def __init__(self, order: str, share: int, begin: Callable[[Call], None], deliver: Callable[[Call], None]) -> None:
        self._lane_of = _LANES[order]
        self._share = share if order == "key" else _NO_SHARE
        self._begin = begin
        self._deliver = deliver
        self._lanes: dict[Any, deque[Call]] = {}
        self._waiting: dict[Any, deque[Call]] = {}
        self.outstanding = 0
        self.parked: dict[str, int] = {}

    def submit(self, call: Call) -> None:
        """Begin a call, or park it if its lane is full."""
        lane = self._lane_of(call)
        if lane is not None:
            calls = self._lanes.get(lane)
            if calls is None:
                calls = self._lanes[lane] = deque()
            elif len(calls) >= self._share or lane in self._waiting:
                self._park(lane, call)
                return
            calls.append(call)
        self.outstanding += 1
        self._begin(call)

    def end(self, call: Call) -> None:
        """A call has ended: deliver it, and those of its lane that waited for it, once it is the first there."""
        lane = self._lane_of(call)
        if lane is None:
            self.outstanding -= 1
            self._deliver(call)
            return
        call.done = True
        calls = self._lanes[lane]
        while calls and calls[0].done:
            self.outstanding -= 1
            self._deliver(calls.popleft())
        if lane in self._waiting:
            self._begin_parked(lane, self._share)
        if not calls:
            del self._lanes[lane]

    def begin_all(self) -> None:
        """Begin all calls that are parked, whatever the share of their lane: no others will come."""
        for lane in tuple(self._waiting):
            self._begin_parked(lane, _NO_SHARE)

    def clear(self) -> None:
        """Forget the calls that are parked."""
        self._waiting.clear()
        self.parked.clear()

    def _park(self, lane: Any, call: Call) -> None:
        start = start_of(call)
        self.parked[start] = self.parked.get(start, 0) + 1
        self._waiting.setdefault(lane, deque()).append(call)

    def _begin_parked(self, lane: Any, share: int) -> None:
        calls, waiting, parked = self._lanes[lane], self._waiting[lane], self.parked
        while waiting and len(calls) < share:
            call = waiting.popleft()
            start = start_of(call)
            parked[start] -= 1
            if not parked[start]:
                del parked[start]
            calls.append(call)
            self.outstanding += 1
            self._begin(call)
        if not waiting:
            del self._waiting[lane]


def start_of(call: Call) -> str:
    """The input or operator that a call's message comes from."""
    return "" if call.item is None else str(call.item[2].queue.start)


def share_of(max_in_flight: int) -> int:
    """How many calls of one key may be outstanding in a pool: half of those that may run, so that others can."""
    return -(-max_in_flight // 2)


_NO_SHARE = 1 << 62


def _no_lane(_: Call) -> None:
    return None


def _one_lane(_: Call) -> str:
    return "task"


def _lane_of_key(call: Call) -> bytes | None:
    return call.key


_LANES: dict[str, Callable[[Call], Any]] = {"none": _no_lane, "input": _one_lane, "key": _lane_of_key}
"""The function that returns the lane of a call, by the `order` of the operator; None is a call in nobody's order."""

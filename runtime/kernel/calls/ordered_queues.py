"""Queues of calls: the order in which results are delivered, and the calls that wait since their queue is full.

A call that takes long holds back the results behind it in its queue. Without a bound these, and the calls behind them,
would fill the pool, and no call of another queue would begin. So a queue has a share of the pool. Calls beyond it are
parked: they take no room of others, and only the input that they come from is read no further once it has many.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .call import Call


class OrderedQueues:
    """The calls of a pool that have been submitted and not delivered, each in the queue that `order` gives it. Calls of
    one queue are delivered in the order in which they were submitted.

    At most `share` calls of one key are `outstanding`: begun by `begin(call)`, and not passed to `deliver(call)` yet.
    `parked` counts the others, by the input or operator that their messages come from.
    """

    __slots__ = ("_begin", "_deliver", "_queue_of", "_queues", "_share", "_waiting", "outstanding", "parked")

    def __init__(self, order: str, share: int, begin: Callable[[Call], None], deliver: Callable[[Call], None]) -> None:
        self._queue_of = _QUEUES[order]
        self._share = share if order == "key" else _NO_SHARE
        self._begin = begin
        self._deliver = deliver
        self._queues: dict[Any, deque[Call]] = {}
        self._waiting: dict[Any, deque[Call]] = {}
        self.outstanding = 0
        self.parked: dict[str, int] = {}

    def submit(self, call: Call) -> None:
        """Begin a call, or park it if its queue is full."""
        queue = self._queue_of(call)
        if queue is not None:
            calls = self._queues.get(queue)
            if calls is None:
                calls = self._queues[queue] = deque()
            # Where others of its key are parked it waits behind them, even if there is room by now: else it would
            # overtake.
            elif len(calls) >= self._share or queue in self._waiting:
                self._park(queue, call)
                return
            calls.append(call)
        self.outstanding += 1
        self._begin(call)

    def end(self, call: Call) -> None:
        """A call has ended: deliver it, and those of its queue that waited for it, once it is the first there."""
        queue = self._queue_of(call)
        if queue is None:
            self.outstanding -= 1
            self._deliver(call)
            return
        call.done = True
        calls = self._queues[queue]
        while calls and calls[0].done:
            self.outstanding -= 1
            self._deliver(calls.popleft())
        # Only once calls that have ended are removed: until then they would count against the share.
        if queue in self._waiting:
            self._begin_parked(queue, self._share)
        # Keys come and go without end: an empty queue for each that ever came would fill the memory.
        if not calls:
            del self._queues[queue]

    def begin_all(self) -> None:
        """Begin all calls that are parked, whatever the share of their queue: no others will come."""
        for queue in tuple(self._waiting):
            self._begin_parked(queue, _NO_SHARE)

    def clear(self) -> None:
        """Forget the calls that are parked."""
        self._waiting.clear()
        self.parked.clear()

    def _park(self, queue: Any, call: Call) -> None:
        start = start_of(call)
        self.parked[start] = self.parked.get(start, 0) + 1
        self._waiting.setdefault(queue, deque()).append(call)

    def _begin_parked(self, queue: Any, share: int) -> None:
        calls, waiting, parked = self._queues[queue], self._waiting[queue], self.parked
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
            del self._waiting[queue]


def start_of(call: Call) -> str:
    """The input or operator that a call's message comes from."""
    return "" if call.item is None else str(call.item[2].queue.start)


def share_of(max_in_flight: int) -> int:
    """How many calls of one key may be outstanding in a pool: half of those that may run, so that others can."""
    return -(-max_in_flight // 2)


# More calls than there can be: a number, so that the comparison for each call needs no case of its own.
_NO_SHARE = 1 << 62


def _no_queue(_: Call) -> None:
    return None


def _one_queue(_: Call) -> str:
    return "task"


def _queue_of_key(call: Call) -> bytes | None:
    return call.key


_QUEUES: dict[str, Callable[[Call], Any]] = {"none": _no_queue, "input": _one_queue, "key": _queue_of_key}
"""The function that returns the queue of a call, by the `order` of the operator; None where it keeps no order."""

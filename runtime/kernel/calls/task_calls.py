"""The asynchronous calls of one task, in the pools of its operators: how many more messages the task takes."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Protocol

from .call import Call
from .in_flight import InFlightMessage


class Pool(Protocol):
    """The calls of one asynchronous operator in one task. `submit` takes a call, and `most_in_flight` is how many may
    run at once."""

    submit: Callable[[Call], None]
    most_in_flight: int

    @property
    def in_flight(self) -> int:
        """How many calls have begun and not ended."""
        ...

    @property
    def outstanding(self) -> int:
        """How many calls were submitted and not delivered, but for those that are parked."""
        ...

    @property
    def parked(self) -> Mapping[str, int]:
        """How many calls wait since their key has too many, by the input or operator of their messages."""
        ...

    @property
    def allowance(self) -> int | None:
        """How many more messages its limit lets be submitted now; None without a limit."""
        ...

    @property
    def held_up(self) -> bool:
        """Whether calls wait for a limit, or will not be taken because of one."""
        ...

    @property
    def at_once(self) -> int | None:
        """How many calls may run at once at present; None where that does not change."""
        ...

    @property
    def hedges(self) -> int | None:
        """How many second calls were made beside others that took long; None without `hedge=`."""
        ...

    def give_names(self, origin: Callable[[InFlightMessage], str]) -> None:
        """Take a function that names the message of a call, for its key."""
        ...

    def flush(self) -> None:
        """No more calls come for now: let none wait that could begin."""
        ...

    def cancel(self) -> None:
        """Cancel the calls in flight. Nothing more is delivered."""
        ...


class TaskCalls:
    """The asynchronous calls of one task. `pools` has the pool of each operator, and `inputs` the names of the inputs.
    `waiting` returns how many messages wait for others though their calls have ended, and `reached` the pools whose
    room the messages of an input need; all of them if it is left out."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        inputs: Collection[str],
        waiting: Callable[[], int],
        reached: Callable[[str], Collection[Pool]] | None = None,
    ) -> None:
        self._pools = pools
        self._inputs = inputs
        self._waiting = waiting
        self._reached = cache((lambda _: pools.values()) if reached is None else reached)

    def room(self, start: str) -> int:
        """How many messages of an input may be fed now. An input whose messages wait behind slow calls of their keys
        has less room than others, or none."""
        # Messages that wait would pile up behind a call that takes long. They wait for no limit.
        pools = self._reached(start)
        free = self._free(self._waiting(), pools)
        for pool in pools:
            if start in pool.parked:
                free = min(free, pool.most_in_flight - pool.parked[start])
        return max(0, free)

    def parks(self, start: str) -> bool:
        """Whether as many messages of an input wait behind slow calls of their keys as may, so that none is fed."""
        return any(pool.parked.get(start, 0) >= pool.most_in_flight for pool in self._reached(start))

    @property
    def free(self) -> int:
        """How many more calls the fullest pool takes now of messages that operators emit."""
        free = self._free(0, self._pools.values())
        for pool in self._pools.values():
            parked = [number for start, number in pool.parked.items() if start not in self._inputs]
            free = min(free, pool.most_in_flight - max(parked, default=0)) if parked else free
        return max(0, free)

    def _free(self, waiting: int, pools: Iterable[Pool]) -> int:
        # A queue holds as many calls as may run.
        free = 1 << 30
        for pool in pools:
            free = min(free, 2 * pool.most_in_flight - pool.outstanding - waiting)
            allowance = pool.allowance
            if allowance is not None and allowance < free:
                free = allowance
        return free

    @property
    def held_up(self) -> bool:
        """Whether messages wait for the limit of an operator, in front of it or to be taken at all."""
        return any(pool.held_up for pool in self._pools.values())

    @property
    def in_flight(self) -> int:
        """How many calls have begun and not ended, in all pools; those that wait to begin are not counted."""
        return sum(pool.in_flight for pool in self._pools.values())

    def flush(self) -> None:
        """No more messages come for now: let no call wait that could begin."""
        for pool in self._pools.values():
            pool.flush()

    def cancel(self) -> None:
        """Ask all calls to end, and drop their messages: they are neither delivered nor failed, and the next run reads
        them again. Returns at once; a call that ignores its cancellation goes on."""
        for pool in self._pools.values():
            pool.cancel()

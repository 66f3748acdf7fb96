"""Calls that take a list of values each: messages wait for company, and a batch of them is one call of a call pool."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from ....dsl.functions import called_name
from ....dsl.operators import AsyncCall, Operator
from ....dsl.remote_table import Batch
from ....dsl.text import plural
from .async_calls import CallPool, Gate, Sleep
from .call import Call
from .call_journal import CallJournal, queues_for
from .cancellation import as_error
from .door import Door
from .in_flight import InFlightMessage
from .ordered_queues import share_of


class BatchPool:
    """The calls of one asynchronous operator with `batch=` in one task: at most `most_in_flight` messages are in the
    batches in flight.

    A batch is sent when it has `size` messages, when its first has waited for `delay`, and at `flush`; all that once
    there is room for it. Timeouts, retries and calls that do not end are those of the pool whose calls are the batches.
    """

    def __init__(
        self,
        operator: Operator,
        call: AsyncCall,
        deliver: Callable[[Call], None],
        sleep: Sleep = asyncio.sleep,
        gate: Gate | None = None,
        door: Door | None = None,
        journal: CallJournal | None = None,
    ) -> None:
        batch = call.batch or Batch()
        self.most_in_flight = call.max_in_flight
        self._size, self._delay = batch.size, batch.delay_ms / 1000
        self._name = called_name(call.fn)
        # Batches keep no order among themselves: the queues in front of them put the messages in order.
        alone = replace(call, fn=_answers(call.fn), batch=None, order="none")
        self._calls = CallPool(operator, alone, self._ended, sleep, gate, door)
        # A key may fill a batch by itself: with less it would wait for company that it keeps out.
        share = max(batch.size, share_of(call.max_in_flight))
        self._queues = queues_for(call.order, share, self._wait, deliver, journal)
        self.submit: Callable[[Call], None] = self._queues.submit
        """Queues a message for a batch."""
        self._waiting: deque[Call] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.in_flight = 0

    def give_names(self, origin: Callable[[InFlightMessage], str]) -> None:
        """Take a function that names the message of a call, for its key."""
        self._calls.give_names(origin)

    @property
    def allowance(self) -> int | None:
        """How many more messages its limit lets be submitted now; None without a limit."""
        calls = self._calls.allowance
        return None if calls is None else max(0, calls * self._size - len(self._waiting))

    @property
    def held_up(self) -> bool:
        """Whether calls wait for a limit, or will not be taken because of one."""
        return self._calls.held_up

    @property
    def at_once(self) -> int | None:
        """How many batches may run at once at present; None where that does not change."""
        return self._calls.at_once

    @property
    def hedges(self) -> int | None:
        """How many second batches were made beside others that took long; None without `hedge=`."""
        return self._calls.hedges

    @property
    def outstanding(self) -> int:
        """How many messages were submitted and not delivered, but for those that are parked."""
        return self._queues.outstanding

    @property
    def parked(self) -> Mapping[str, int]:
        """How many messages wait since their key has too many, by their input or operator."""
        return self._queues.parked

    def flush(self) -> None:
        """No more messages come for now: send what waits for company."""
        self._queues.begin_all()
        self._send(hurry=True)
        self._calls.flush()

    def _wait(self, call: Call) -> None:
        """A message waits for company. Its deadline is the time at which its batch is sent."""
        loop = asyncio.get_running_loop()
        call.deadline = loop.time() + self._delay
        self._waiting.append(call)
        if len(self._waiting) >= self._size:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_at(call.deadline, self._due)

    def _due(self) -> None:
        """The first message has waited long enough, unless its batch was sent before and another one is first."""
        self._timer = None
        self._send()

    def _send(self, *, hurry: bool = False) -> None:
        """Send the batches that are full, or whose first message has waited long enough, or with `hurry` all, as far as
        there is room: what there is none for is sent when others end."""
        loop, waiting = asyncio.get_running_loop(), self._waiting
        while waiting:
            size = min(len(waiting), self._size)
            if not (hurry or size == self._size or waiting[0].deadline <= loop.time() + _NEARLY):
                break
            # No timer is needed: there is room only once a batch has ended, and `_ended` calls this again.
            if self.in_flight + size > self.most_in_flight:
                return
            calls = [waiting.popleft() for _ in range(size)]
            self.in_flight += size
            self._calls.submit(Call(None, [call.value for call in calls], calls))
        if waiting and self._timer is None:
            self._timer = loop.call_at(waiting[0].deadline, self._due)

    def _ended(self, batch: Call) -> None:
        """A batch has ended: hand each message its results, or its error."""
        calls: list[Call] = batch.item
        error = batch.take_error() if batch.error is not None else None
        results = self._checked(batch.results, len(calls)) if error is None else [error] * len(calls)
        # Before results are delivered: what is delivered may submit messages, which are to find the room.
        self.in_flight -= len(calls)
        for call, result in zip(calls, results, strict=True):
            if isinstance(result, BaseException):
                call.error = result
            else:
                call.results = result
            self._queues.end(call)
        del error, results  # the traceback of an error refers to this frame
        self._send()

    def _checked(self, results: list[Any], number: int) -> list[Any]:
        """The results, one for each message; an error for each if these are too few or too many."""
        if len(results) == number:
            return results
        wrong = f"{self._name} returned {plural(len(results), 'result')} for {plural(number, 'value')}"
        return [ValueError(f"{wrong}: with batch= it must return one for each") for _ in range(number)]

    def cancel(self) -> None:
        """Cancel the calls in flight. Nothing more is delivered."""
        self._waiting.clear()
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._calls.cancel()
        self.in_flight = 0


def _answers(fn: Callable[[Any], Awaitable[Iterable[Any]]]) -> Callable[[Any], Awaitable[list[Any]]]:
    """A function of a list of values that returns a list for each of them, or its error."""

    async def call(values: list[Any]) -> list[Any]:
        answers = await fn([*values])  # a function may use up its list, and is given it anew in the next attempt
        if isinstance(answers, Mapping | AbstractSet | str | bytes):
            wrong = f"{called_name(fn)} returned {type(answers).__name__}"
            raise TypeError(f"{wrong}: with batch= it must return a list of results, in the order of the values")
        return [_answer(one) for one in answers]

    return call


def _answer(one: Any) -> Any:
    if isinstance(one, BaseException):
        return as_error(one)
    try:
        return list(one)
    except BaseException as error:  # of a generator, or of what is no iterable
        return as_error(error)


_NEARLY = 1e-6
"""Far more than the rounding of sums of seconds, far less than 1 ms, the shortest delay."""

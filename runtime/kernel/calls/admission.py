"""Admits calls within a limit: what a process may use of the limit, and the calls that wait for it."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from ....dsl.limit import BudgetExhausted, Limit
from .limit_meter import Meter

AHEAD_SECONDS = 0.02
"""Messages are taken for the calls that may begin within so many seconds, about a turn of a busy container."""
WAIT_SECONDS = 1.0
"""No message is taken for a call that could not begin for longer: what waits here holds up a commit that needs it."""
_REFUSED_SECONDS = 1.0
"""For so long a message that was not taken says that a call is to come: longer than a turn, and most commits, take."""
_ALL = 1 - 1e-12
"""From this share on a budget counts as exhausted: sums of costs are rounded."""
_NEW = 0.1
"""The weight of the newest estimate in the mean of all."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a call has taken of a limit: when (`at`, in seconds of the event loop), how many tokens, and how much of the
    budget."""

    at: float
    tokens: float
    cost: float


class Admission:
    """What a process may use of a limit, and the calls that wait for it, first come, first served.

    The cost of a call is known once it has ended. Until then the cost of the dearest call so far is held for it. Where
    less than that is left of the budget, or no call has ended yet, calls are made one by one. So at most one call goes
    beyond the budget, unless a call costs more than all before it.
    """

    def __init__(self, limit: Limit) -> None:
        self.limit, self.name = limit, limit.name
        self.per = per = limit.per_ms / 1000
        self.lock = Lock()
        """Held where meters are read or changed: leases are renewed in another thread."""
        self.lease_ends = math.inf
        """The time of the event loop, in seconds, from which no call begins."""
        amounts = {"calls": (limit.calls, per), "tokens": (limit.tokens, per), "budget": (limit.budget, math.inf)}
        self.most: Mapping[str, float] = {name: most for name, (most, _) in amounts.items() if most is not None}
        """What the limit allows of each amount in all processes."""
        self.meters: Mapping[str, Meter] = {name: Meter(most, amounts[name][1]) for name, most in self.most.items()}
        """What may be used of each amount in this process, which may be a share of the limit."""
        self.expected = 0
        """Calls that were submitted and have not begun."""
        self.begun = 0
        """Calls that have begun so far."""
        self.waited_seconds = 0.0
        """For how long calls have waited, added up."""
        self.on_exhausted: Callable[[str], None] | None = None
        """Is given a text once, when the budget of all processes is exhausted."""
        self._spent_by_all = 0.0
        # Without a function of cost each call costs 1, so the first ones need not be made one by one to learn it.
        self._dearest = None if limit.cost is not None else 1.0
        self._mean_tokens = 1.0
        self._refused_at = -math.inf
        self._parts = 1
        self._in_flight = 0
        self._waiting: deque[tuple[float, float, asyncio.Future[Ticket]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def divide(self, parts: int) -> None:
        """Use one of `parts` equal parts of the limit from now on, where processes do not tell each other what they
        use. A part of less than one call becomes one call in a longer span."""
        if parts == self._parts:
            return
        self._parts = parts
        for name, meter in self.meters.items():
            meter.most = self.most[name] / parts
            if name == "calls" and meter.most < 1:
                meter.stretch(self.per / meter.most)
                meter.most = 1.0

    @property
    def exhausted(self) -> bool:
        """Whether all of the budget of this process is used: no call begins."""
        budget = self.meters.get("budget")
        return budget is not None and budget.used_in_all >= budget.most * _ALL

    @property
    def waiting(self) -> int:
        """How many calls wait for the limit now."""
        return sum(not ready.done() for *_, ready in self._waiting)

    @property
    def holds(self) -> bool:
        """Whether calls wait for the limit, or none may be submitted. One that holds too little for a call, and was not
        asked for any, is not at its limit."""
        return self.waiting > 0 or self._refuses or self._room(asked=False) == 0

    @property
    def _refuses(self) -> bool:
        """Whether a message was not taken lately."""
        return self._loop is not None and self._loop.time() - self._refused_at < _REFUSED_SECONDS

    @property
    def needs(self) -> Mapping[str, float]:
        """What the first call that waits needs of each amount; or one of the usual size, where a message was not taken
        lately; else nothing."""
        tokens = self._mean_tokens if self._refuses else None
        with suppress(IndexError):  # the thread that asks is not the one in which calls begin
            tokens = self._waiting[0][0]
        return {} if tokens is None else {"calls": 1.0, "tokens": tokens, "budget": self._dearest or 0.0}

    async def enter(self, value: Any) -> Ticket:
        """Wait until a call with this value may begin, which `leave` ends. Raises BudgetExhausted, what `estimate`
        raises, and ValueError for a call that the limit never allows."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what waited in an earlier event loop has ended with it
            self._loop, self._timer, self._in_flight = loop, None, 0
            self._waiting.clear()
        tokens, now = self._tokens_of(value), loop.time()
        # Not in front of those that wait, even where its tokens would fit: a large call would wait for ever behind
        # small ones.
        if not self._waiting and self._wait(now, tokens) <= 0:
            ticket = self._take(now, tokens)
            self._look_again(loop)
            return ticket
        self._warn_if_exhausted()
        if self._fails:
            raise self._no_budget()
        ready: asyncio.Future[Ticket] = loop.create_future()
        self._waiting.append((tokens, now, ready))
        # It may be the first of the line, which alone has a timer.
        self.pump()
        try:
            return await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled() and ready.exception() is None:
                self.give_back(ready.result())
            raise

    def leave(self, ticket: Ticket, value: Any, results: Any, *, failed: bool) -> None:
        """A call has ended: replace what was held for it by what it has used. A call that `failed` has cost nothing,
        and has used the tokens of its estimate. Raises what the functions of the limit raise."""
        now = ticket.at if self._loop is None else self._loop.time()
        self._in_flight = max(0, self._in_flight - 1)
        limit, tokens, budget = self.limit, self.meters.get("tokens"), self.meters.get("budget")
        try:
            cost = 0.0 if failed else self._cost_of(value, results)
            if tokens is not None and limit.used is not None and not failed:
                used = _amount(limit.used(value, results), "used")
                with self.lock:
                    tokens.settle(ticket.at, now, used - ticket.tokens)
        except BaseException:
            self.pump()
            raise
        if budget is not None:
            with self.lock:
                budget.settle(ticket.at, now, cost - ticket.cost)
            if not failed:
                self._dearest = max(self._dearest or 0.0, cost)
        self.pump()

    def give_back(self, ticket: Ticket) -> None:
        """A call that was admitted does not begin: free all that it has taken."""
        taken = {"calls": 1.0, "tokens": ticket.tokens, "budget": ticket.cost}
        with self.lock:
            for name, meter in self.meters.items():
                meter.settle(ticket.at, ticket.at, -taken[name])
        # Counted in `_take`: else figures would show a call that was never made.
        self.begun -= 1
        self._in_flight = max(0, self._in_flight - 1)
        self.pump()

    def pump(self) -> None:
        """Let waiting calls begin, as far as the limit allows. Called when a call has ended, when time has passed, and
        when this process may use more."""
        loop, waiting = self._loop, self._waiting
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if loop is None or loop.is_closed():
            return
        while waiting:
            tokens, since, ready = waiting[0]
            if ready.done():  # its call was cancelled
                waiting.popleft()
                continue
            now = loop.time()
            wait = self._wait(now, tokens)
            if wait > 0:
                self._warn_if_exhausted()
                if self._fails:
                    waiting.popleft()
                    ready.set_exception(self._no_budget())
                    continue
                if wait < math.inf:
                    self._timer = loop.call_later(wait, self.pump)
                return
            waiting.popleft()
            self.waited_seconds += now - since
            ready.set_result(self._take(now, tokens))
        self._look_again(loop)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set a timer for shortly before another call may begin, where calls begin far apart: under virtual time nobody
        asks whether there is room before the next timer."""
        if self._timer is None and self._is_slow and WAIT_SECONDS < (wait := self._next_wait(loop.time())) < math.inf:
            self._timer = loop.call_later(wait - WAIT_SECONDS / 2, self.pump)

    @property
    def _usual(self) -> list[tuple[float, Meter]]:
        """How much a call of the usual size takes of each amount that is allowed in a time, and the meter of that."""
        usual = {"calls": 1.0, "tokens": self._mean_tokens}
        return [(usual[name], meter) for name, meter in self.meters.items() if name in usual]

    @property
    def _is_slow(self) -> bool:
        """Whether calls of the usual size begin so far apart that messages are not taken for them in between."""
        return any(amount * meter.per > WAIT_SECONDS * meter.most for amount, meter in self._usual)

    def _next_wait(self, now: float) -> float:
        """The seconds until another call of the usual size may begin, whatever it costs."""
        with self.lock:
            return max((meter.wait(now, amount) for amount, meter in self._usual), default=0.0)

    def flush(self) -> None:
        """A commit waits for calls: let those begin that wait for an exhausted budget, such as further attempts. Their
        messages were taken before, so the commit would wait for good."""
        waiting, loop = self._waiting, self._loop
        if self.limit.when_exhausted == "error":  # waiting calls fail once those in flight have ended
            return
        while waiting and self._all_is_used and loop is not None:
            tokens, _, ready = waiting.popleft()
            if not ready.done():
                ready.set_result(self._take(loop.time(), tokens))

    def room(self) -> int:
        """How many more calls may be submitted for messages that are there: those that may begin soon, so that few
        wait; or one if none waits, unless it would wait for long."""
        return self._room(asked=True)

    def _room(self, *, asked: bool) -> int:
        loop = self._loop
        if self.exhausted:
            self._warn_if_exhausted()  # no call does that for messages that are not taken
            # With "error" messages must be taken, to fail; unless other processes have budget left.
            return 1 << 30 if self._fails else 0
        if loop is None or loop.is_closed():
            return max(0, 1 - self.expected)
        now, means = loop.time(), {"calls": 1.0, "tokens": self._mean_tokens, "budget": self._dearest or math.inf}
        with self.lock:
            soon = {name: meter.room(now, means[name], AHEAD_SECONDS) for name, meter in self.meters.items()}
        if soon.get("budget", 1.0) < 1 and self._in_flight:
            return 0  # a call that waits for the budget could hold up a commit for good
        # Infinite where this process holds less of what others share than a call needs: it is given more as it asks.
        if (wait := self._next_wait(now)) > WAIT_SECONDS and (asked or wait < math.inf):
            self._refused_at = now if asked else self._refused_at
            return 0
        return max(0, max(1, int(min(1 << 30, *soon.values()))) - self.expected)

    @property
    def _all_is_used(self) -> bool:
        """Whether the budget is exhausted in all processes, as far as this one knows, or an equal part of it, to
        which no other process can add."""
        return self.exhausted and self.spent_by_all() >= self.most["budget"] / self._parts * _ALL

    @property
    def _fails(self) -> bool:
        """Whether calls fail, for nothing is left of the budget: those in flight may cost less than is held
        for them."""
        return self.limit.when_exhausted == "error" and self._in_flight == 0 and self._all_is_used

    def spent_by_all(self) -> float:
        """How much of the budget is used in all processes."""
        return max(self._spent_by_all, self.meters["budget"].used_in_all)

    def set_spent_by_all(self, spent: float) -> None:
        """Set how much of the budget is spent in all processes, as these report it."""
        self._spent_by_all = spent

    def pump_soon(self) -> None:
        """As `pump`, but may be called by another thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self.pump)

    def _wait(self, now: float, tokens: float) -> float:
        """The seconds until a call with so many tokens may begin."""
        if now >= self.lease_ends:
            return math.inf
        needs = {"calls": 1.0, "tokens": tokens}
        with self.lock:
            waits = [meter.wait(now, needs[name]) for name, meter in self.meters.items() if name in needs]
        wait, budget, held = max(waits, default=0.0), self.meters.get("budget"), self._dearest
        if budget is None or wait == math.inf:
            return wait
        fits = held is not None and budget.wait(now, held) == 0
        return wait if fits or (self._in_flight == 0 and not self.exhausted) else math.inf

    def _take(self, now: float, tokens: float) -> Ticket:
        ticket = Ticket(now, tokens, self._dearest or 0.0)
        taken = {"calls": 1.0, "tokens": tokens, "budget": ticket.cost}
        with self.lock:
            for name, meter in self.meters.items():
                meter.take(now, taken[name])
        self.begun += 1
        self._in_flight += 1
        self._refused_at = -math.inf
        return ticket

    def _tokens_of(self, value: Any) -> float:
        estimate, most = self.limit.estimate, self.limit.tokens
        if estimate is None or most is None:
            return 0.0
        tokens = _amount(estimate(value), "estimate")
        if tokens * self._parts > most:
            wrong = f"limit {self.limit.name!r}: the estimate of a call is {tokens:g} tokens"
            each = f" in each of {self._parts} parts" if self._parts > 1 else ""
            raise ValueError(f"{wrong}, and the limit allows {most / self._parts:g}{each}: it would wait for good")
        self._mean_tokens += _NEW * (tokens - self._mean_tokens)
        return tokens

    def _cost_of(self, value: Any, results: Any) -> float:
        return 1.0 if self.limit.cost is None else _amount(self.limit.cost(value, results), "cost")

    def _warn_if_exhausted(self) -> None:
        if self.on_exhausted is not None and self._in_flight == 0 and self._all_is_used:
            warn, self.on_exhausted = self.on_exhausted, None
            pauses = self.limit.when_exhausted == "pause"
            warn(
                f"{self._no_budget()}: {'calls wait, and nothing more is read for them' if pauses else 'messages fail'}"
            )

    def _no_budget(self) -> BudgetExhausted:
        each = f" in {self._parts} parts" if self._parts > 1 else ""
        return BudgetExhausted(f"the budget of limit {self.limit.name!r}, {self.most['budget']:g}{each}, is exhausted")


def _amount(given: Any, what: str) -> float:
    """A number that a function of the limit has returned; ValueError for anything else."""
    good = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < math.inf
    if not good:
        raise ValueError(f"{what} of a limit returned {given!r}: it must return a number, 0 or more")
    return float(given)

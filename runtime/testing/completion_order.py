"""The order in which asynchronous calls complete: a test can choose it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ..kernel.calls.call import Call


@dataclass(frozen=True, slots=True)
class Ended:
    """A call of an `async_flat_map` that has ended, and whose results are held back: the key and value of its message.

    A function given as `async_results` picks among them:

    >>> def longest_first(calls: Sequence[Ended]) -> int:
    ...     return max(range(len(calls)), key=lambda index: len(calls[index].value))
    >>> longest_first([Ended(None, "tea"), Ended(None, "coffee")])
    1
    """

    key: bytes | None
    value: Any


Choose = Callable[[Sequence[Ended]], int | None]
"""Returns the index of the call that completes next, among those that have ended, in the order in which they began;
None if none of them does yet."""

AsyncResults = Literal["input", "reverse"] | Choose

_ORDERS: dict[str, Choose] = {"input": lambda _: 0, "reverse": lambda calls: len(calls) - 1}


def chooser(async_results: AsyncResults) -> Choose:
    """The function that an argument `async_results` stands for."""
    if callable(async_results):
        return async_results
    if async_results not in _ORDERS:
        wrong = f"async_results={async_results!r}"
        raise UsageError(explain(wrong, '"input", "reverse" or a function', "write async_results=lambda calls: 0"))
    return _ORDERS[async_results]


class CompletionGate:
    """Holds the results of calls back, and releases one at a time."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._waiting: list[tuple[Ended, asyncio.Future[None]]] = []

    async def wait(self, call: Call) -> None:
        """Hold the caller until `open` releases it. A call that is cancelled meanwhile is not there to be chosen."""
        held = Ended(call.key, call.value), asyncio.get_running_loop().create_future()
        self._waiting.append(held)
        try:
            await held[1]
        finally:
            self._waiting.remove(held)

    def open(self, force: bool) -> bool:
        """Release the chosen call, with `force` the first one if none is chosen. Returns whether there was one."""
        waiting = [held for held in self._waiting if not held[1].done()]
        if not waiting:
            return False
        index = self._choose([ended for ended, _ in waiting])
        if index is None and not force:
            return False
        waiting[index or 0][1].set_result(None)
        return True

"""Stateful operators that go by processing time: the same ones, with the clock in place of the messages' times."""

from collections.abc import Callable, Iterator
from typing import Any

from ....dsl.message import Headers
from ..state_cache import Change
from ..stateful_operator import StatefulOperator
from ..time.bounds import END


class ProcessingTimeOperator:
    """A stateful operator to which a message has the time at which it comes; `clock` tells it, in ms since epoch.

    Nothing is late for it, since its watermark is the clock too.
    """

    def __init__(self, inner: StatefulOperator, clock: Callable[[], int]) -> None:
        self._inner = inner
        self._clock = clock
        self._add = inner.add
        self.advance = inner.advance
        self.changes: Callable[[], Iterator[Change]] = inner.changes
        self.mark_committed, self.caches = inner.mark_committed, inner.caches
        self.due = inner.next_due
        """The time of the clock at which there is next something to do."""

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, *side: int) -> None:
        del timestamp, watermark
        # Asked for now: a message may have waited for others since it came here.
        now = self._clock()
        self._add(key, value, now, headers, now, *side)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        del timestamp
        return self._inner.undo(key, self._clock())

    def next_due(self) -> int:
        """No watermark wakes it: the clock comes by anyway."""
        return END

    @property
    def changed(self) -> int:
        return self._inner.changed

"""Stateful operators in processing time: the clock replaces the timestamps of messages."""

from collections.abc import Callable, Iterator
from typing import Any

from ....dsl.message import Headers
from ..state_backend import Change
from ..stateful_operator import StatefulOperator
from ..time.bounds import END


class ProcessingTimeOperator:
    """A stateful operator in processing time: the timestamp of a message is the time of the `clock`, in ms since epoch.

    No message is late, since the watermark is the time of the clock too.
    """

    def __init__(self, inner: StatefulOperator, clock: Callable[[], int]) -> None:
        self._inner = inner
        self._clock = clock
        self._add = inner.add
        self.advance = inner.advance
        self.changes: Callable[[], Iterator[Change]] = inner.changes
        self.mark_committed, self.caches = inner.mark_committed, inner.caches
        self.due = inner.next_due
        """The next time of the clock at which the operator is due."""

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, *side: int) -> None:
        """Add a message to the operator inside, with the time of the clock as its timestamp and its watermark."""
        del timestamp, watermark
        # The clock is read here: the message may have waited for others since it entered the stage.
        now = self._clock()
        self._add(key, value, now, headers, now, *side)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that takes back what the message changes at the time of the clock."""
        del timestamp
        return self._inner.undo(key, self._clock())

    def next_due(self) -> int:
        """END: the clock fires it, not a watermark."""
        return END

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._inner.changed

"""The state of one task: its changes for a commit, and its size in memory."""

import sys
from collections.abc import Iterator, Mapping
from itertools import chain

from ...dsl.errors import FluvialError, PipelineError
from ...dsl.operators import Operator
from ...dsl.text import error_text
from ...dsl.validation import explain
from .changed_bytes import ChangedBytes
from .counted_reads import CountedReads
from .state_backend import Change
from .state_cache import Size, WriteBackCache, evict
from .stateful_operator import StatefulOperator

EIGHTH = 8
"""Values are evicted once the reads since the last eviction come to an eighth of what may be in memory."""


class TaskState:
    """The state of the `stateful` operators of a task, which read from one `backend`."""

    def __init__(
        self, operators: Mapping[str, Operator], stateful: Mapping[str, StatefulOperator], backend: CountedReads
    ) -> None:
        self._operators = operators
        self._stateful = stateful
        self._backend = backend
        self._changed_bytes = ChangedBytes()

    @property
    def changed(self) -> int:
        """About how many values have changed since the last `mark_committed`."""
        return sum(operator.changed for operator in self._stateful.values())

    @property
    def changed_bytes(self) -> int:
        """About how many bytes these values have, as of the last `measure`."""
        return self._changed_bytes.bytes

    @property
    def bytes(self) -> int:
        """About how many bytes have come into memory since the last commit and the last eviction: the values that have
        changed, and those that were read."""
        return self._changed_bytes.bytes + self._backend.size.bytes

    def measure(self, messages: int) -> None:
        """Update the estimate of the bytes, after so many further messages."""
        self._changed_bytes.measure(self._caches(), messages)

    def changes(self) -> Iterator[Change]:
        """The changes since the last `mark_committed`. Raises PipelineError for a value that cannot be encoded."""
        for id, operator in self._stateful.items():
            try:
                yield from operator.changes()
            except FluvialError:
                raise
            except Exception as error:
                raise self._unencodable(id, error) from error

    def _unencodable(self, id: str, error: Exception) -> PipelineError:
        operator = self._operators[id]
        wrong = f"the state of {operator.label} cannot be encoded: {error_text(error)}"
        expected = "values of the type that is declared, and whole numbers of 64 bits at most"
        origin = operator.origin
        return PipelineError(explain(wrong, expected, "correct what add returns, or the type", origin))

    def mark_committed(self, entries: int, size: int = sys.maxsize) -> None:
        """The changes are committed. Hold at most so many entries in memory, of so many bytes: see `Size`."""
        for operator in self._stateful.values():
            operator.mark_committed()
        self._changed_bytes.begin()
        self._evict(Size(entries, size))

    def evict(self, most: Size) -> None:
        """Hold at most `most` entries in memory, and an EIGHTH more, besides those that have changed. To be called
        every now and then, since reads fill the memory too."""
        read = self._backend.size
        if read.entries * EIGHTH >= most.entries or read.bytes * EIGHTH >= most.bytes:
            self._evict(most)

    def _evict(self, most: Size) -> None:
        # Reads are counted from one eviction to the next.
        self._backend.begin()
        evict(self._caches(), most)

    def _caches(self) -> list[WriteBackCache]:
        return list(chain.from_iterable(operator.caches() for operator in self._stateful.values()))

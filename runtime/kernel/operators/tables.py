"""Tables: the latest row of each key, kept as bytes and decoded at each lookup."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ....dsl.message import Headers
from ....dsl.operators import How
from ..state_backend import Change, StateBackend
from ..state_cache import KeyedState, WriteBackCache
from ..state_codec import MsgpackCodec
from ..time.bounds import END

FindRow = Callable[[bytes | None], Any]
"""Returns the row of a key, decoded for each call; None if there is none."""


@dataclass(slots=True)
class TableContext:
    """The environment of a table.

    `emit` passes on a change: key bytes, value, timestamp, headers; None if nothing follows the changes. `joined`
    returns the row of a key, as bytes, in a table that joins two others. `keyless` is called for each message without a
    key, which a table cannot keep. For the rest see `WindowContext`.
    """

    id: str
    backend: StateBackend
    empty: bool
    decode: Callable[[bytes], Any]
    emit: Callable[[bytes, Any, int, Headers], None] | None
    joined: Callable[[bytes], bytes | None] | None = None
    keyless: Callable[[], None] = lambda: None


class TableOperator:
    """The latest row of each key. State: key -> the row's bytes."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self._rows = KeyedState(context.id, context.backend, bytes, _none, context.empty)
        self.add = self._take if context.joined is None else self._join

    def _take(
        self, key: bytes | None, row: bytes | None, timestamp: int, headers: Headers, watermark: int
    ) -> None:  # of any time: the last row of a key counts
        del watermark
        if key is None:
            self._context.keyless()
        # Where no changes are emitted, a deletion needs no lookup of the row.
        elif row is not None or self._context.emit is None or self.has(key):
            self._set(key, row, timestamp, headers)

    def _join(
        self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int
    ) -> None:  # the current rows are joined, not the value of the change
        del value, watermark, side
        if key is None or self._context.joined is None:
            return
        row = self._context.joined(key)
        if row is not None or self.has(key):
            self._set(key, row, timestamp, headers)

    def has(self, key: bytes) -> bool:
        """Whether the table has the key, changes since the last commit included; the row is not decoded."""
        return self._rows.cache.fresh[key] is not None

    def renew(self, key: bytes) -> None:
        """Rebuild a joined row without emitting the change."""
        assert self._context.joined is not None
        row = self._context.joined(key)
        if row is None and self.has(key):
            self._rows.delete(key)
        elif row != self._rows.cache.fresh[key]:
            self._rows.cache.fresh[key] = row

    def _set(self, key: bytes, row: bytes | None, timestamp: int, headers: Headers) -> None:
        if row is None:
            self._rows.delete(key)
        else:
            self._rows.cache.fresh[key] = row
        emit = self._context.emit
        if emit is not None:
            emit(key, None if row is None else self._context.decode(row), timestamp, headers)

    def row(self, key: bytes | None) -> Any:
        """The row of a key, decoded for the caller; None if there is none."""
        data = None if key is None else self._rows.cache.fresh[key]
        return None if data is None else self._context.decode(data)

    def each_key(self) -> Iterator[bytes]:
        """The keys that have a row, in the order of their bytes, changes since the last commit included."""
        for key, _ in self._rows.cache.items():
            yield key

    def rows(self) -> Iterator[tuple[bytes, Any]]:
        """All rows, by key bytes in their order."""
        return ((key, self._context.decode(data)) for key, data in self._rows.cache.items())

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - of any time
        """A function that restores the row of a key."""
        return self._rows.cache.undo(key or b"")

    def advance(self, watermark: int) -> bool:  # noqa: ARG002
        """True: rows do not depend on the watermark."""
        return True

    def next_due(self) -> int:
        """END: rows wait for no watermark."""
        return END

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._rows.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return self._rows.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._rows.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return self._rows.caches()


def table_prefix(table: str) -> bytes:
    """The prefix of a table's keys in the store of a task."""
    return KeyedState.prefix_of(table)


def row_of(data: bytes) -> bytes:
    """The bytes of a row, given the value in a store."""
    row: bytes = _codec.decode(data)
    return row


_codec = MsgpackCodec(bytes)


def joined_row(
    left: FindRow, right: FindRow, fn: Callable[[Any, Any], Any], how: How, encode: Callable[[Any], bytes]
) -> Callable[[bytes], bytes | None]:
    """A function that returns the joined row of a key, as bytes; None if there is none, or if `fn` returns None."""
    needs_left, needs_right = _NEEDED[how]

    def joined(key: bytes) -> bytes | None:
        ours, theirs = left(key), right(key)
        missing = (needs_left and ours is None) or (needs_right and theirs is None)
        row = None if missing or (ours is None and theirs is None) else fn(ours, theirs)
        return None if row is None else encode(row)

    return joined


_NEEDED = {"inner": (True, True), "left": (True, False), "outer": (False, False)}
"""Whether a joined row needs the left row, and the right."""


def _none() -> None:
    return None

"""A store in memory: for tests, and for pipelines whose streams are in memory as well."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from ..kernel.state import Change


class MemoryStore:
    """Entries in a dictionary; they live as long as this object."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._entries.get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = sorted(self._entries)
        for key in keys[bisect_left(keys, start) : bisect_left(keys, stop)]:
            yield key, self._entries[key]

    def write(self, changes: Iterable[Change]) -> None:
        for key, value in list(changes):
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value

    def close(self) -> None:
        """Nothing to do: the entries stay."""

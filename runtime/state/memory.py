"""A store in memory, for tests and for pipelines whose streams are in memory too."""

from collections.abc import Iterable, Iterator

from ..kernel.state_backend import PREFIX_SIZE, Change


class MemoryStore:
    """Entries in a dictionary, as long as this object lives."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key under a prefix; None if there is none."""
        return self._entries.get(prefix + key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys."""
        for key in sorted(self._entries):
            value = self._entries.get(key) if key.startswith(prefix) else None
            if value is not None:  # it may have been deleted meanwhile
                yield key[len(prefix) :], value

    def holds(self, prefix: bytes) -> bool:
        """Whether there are entries under a prefix."""
        return any(key.startswith(prefix) for key in self._entries)

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes that begin with `start` and have entries, in order."""
        size = len(start) + PREFIX_SIZE
        return iter(sorted({key[:size] for key in self._entries if key.startswith(start)}))

    def write(self, changes: Iterable[Change]) -> None:
        """Make the changes in their order."""
        for prefix, key, value in list(changes):
            if key is None:
                for name in [name for name in self._entries if name.startswith(prefix)]:
                    del self._entries[name]
            elif value is None:
                self._entries.pop(prefix + key, None)
            else:
                self._entries[prefix + key] = value

    def clear(self) -> None:
        """Delete all entries."""
        self._entries.clear()

    def sync(self) -> None:
        """Nothing to do: memory does not survive a power cut."""

    def close(self) -> None:
        """Nothing to do: a later run may open the store again."""

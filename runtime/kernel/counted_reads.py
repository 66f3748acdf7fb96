"""How much state is read from a backend."""

from collections.abc import Iterator

from .state_backend import StateBackend
from .state_cache import LIGHT, Size


class CountedReads:
    """A backend that counts how much was read since the last `begin`."""

    __slots__ = ("_backend", "_bytes", "_entries")

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend
        self._entries = self._bytes = 0

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """Read one value of the backend, and count it."""
        data = self._backend.get(prefix, key)
        if data is not None:
            self._entries += 1
            self._bytes += len(data)
        return data

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys; not counted."""
        return self._backend.scan(prefix)

    def holds(self, prefix: bytes) -> bool:
        """Whether there are entries under a prefix; not counted."""
        return self._backend.holds(prefix)

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes that begin with `start` and have entries, in order; not counted."""
        return self._backend.prefixes(start)

    @property
    def size(self) -> Size:
        """The size of the values that were read."""
        return Size(self._entries, self._bytes + self._entries * LIGHT)

    def begin(self) -> None:
        """Forget the reads so far: `size` is of those after this call."""
        self._entries = self._bytes = 0

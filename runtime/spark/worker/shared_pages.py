"""Shared pages: the entries of prefixes that have few of them, many prefixes to a page.

A bucket has a part of the keys, so each of its many windows has few. With a page for each window, a batch that touches
all of them would call Spark's store for each.
"""

from typing import Protocol
from zlib import crc32

import msgspec

_NAME = b"\0shared"
_decode = msgspec.msgpack.Decoder(dict[bytes, dict[bytes, bytes]]).decode
_encode = msgspec.msgpack.Encoder().encode


class Blobs(Protocol):
    """Where pages are stored: see `StateBlobs`."""

    def get(self, name: bytes) -> bytes | None:
        """A page by name; None if there is none."""
        ...

    def put(self, name: bytes, data: bytes) -> None:
        """Store a page, in place of the one of that name."""
        ...

    def remove(self, name: bytes) -> None:
        """Remove the page of that name."""
        ...


class SharedPages:
    """The shared pages of a bucket, of which there are `count`. A prefix is in the page of its hash."""

    def __init__(self, blobs: Blobs, count: int) -> None:
        self.count = count
        self._blobs = blobs
        self._loaded: dict[int, dict[bytes, dict[bytes, bytes]]] = {}
        self._changed: set[int] = set()

    def entries(self, prefix: bytes) -> dict[bytes, bytes]:
        """The entries of a prefix; empty if it has none."""
        return self._page(self._number(prefix)).get(prefix, {})

    def put(self, prefix: bytes, entries: dict[bytes, bytes]) -> None:
        """Set the entries of a prefix; it is left out where it has none."""
        number = self._number(prefix)
        page = self._page(number)
        if entries:
            page[prefix] = entries
        else:
            page.pop(prefix, None)
        self._changed.add(number)

    def spread(self, count: int) -> None:
        """Distribute all prefixes over so many pages."""
        held = [pair for number in range(self.count) for pair in self._page(number).items()]
        self._changed.update(range(max(self.count, count)))
        self.count, self._loaded = count, {number: {} for number in range(max(self.count, count))}
        for prefix, entries in held:
            self._loaded[self._number(prefix)][prefix] = entries

    def write(self) -> None:
        """Write back the pages that have changed."""
        for number in sorted(self._changed):
            page = self._loaded[number]
            if page:
                self._blobs.put(_name(number), _encode(page))
            else:
                self._blobs.remove(_name(number))
        self._changed.clear()

    def _number(self, prefix: bytes) -> int:
        return crc32(prefix) % self.count

    def _page(self, number: int) -> dict[bytes, dict[bytes, bytes]]:
        if number not in self._loaded:
            data = self._blobs.get(_name(number))
            self._loaded[number] = {} if data is None else _decode(data)
        return self._loaded[number]


def _name(number: int) -> bytes:
    return _NAME + number.to_bytes(3, "big")

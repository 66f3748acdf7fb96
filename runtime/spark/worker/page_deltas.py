"""Deltas: changes of entries that are stored beside the pages, so that a batch need not write all pages that it reads.

A batch that changes few entries of each page writes the changes alone, and merges some pages: see `StatePages.write`.
What a page holds is what is stored of it, and over that all that deltas have of it, in the order of their numbers. A
delta goes once all pages have been merged since it was written.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Protocol

import msgspec

from ....dsl.errors import SystemProblem
from .error_texts import lost_files
from .page_index import DeltaIndex, StoredDelta, page_name

Changes = dict[bytes, dict[bytes, bytes | None]]
"""New values by prefix and key; None for an entry that is removed."""

SMALL = 16 << 10
"""Bytes up to which a delta is written again with the changes of the next batch, rather than one more."""
LARGE = 1 << 20
"""Bytes from which the changes of a batch are written as several deltas."""
_NAME = b"\0delta"
_decode = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_decode_changes = msgspec.msgpack.Decoder(Changes).decode
_encode = msgspec.msgpack.Encoder().encode


class Blobs(Protocol):
    """What is stored of a bucket, as bytes by name: Spark's map state, or a dictionary in tests."""

    def get(self, name: bytes, /) -> bytes | None:
        """What is stored under that name; None if nothing is."""
        ...

    def put(self, name: bytes, data: bytes) -> None:
        """Store something, in place of what has that name."""
        ...

    def remove(self, name: bytes) -> None:
        """Remove what has that name, for which `get` then gives None."""
        ...


class PageDeltas:
    """The deltas of a bucket: those that are stored, and the changes of this batch. `unmerged` has the names of pages
    with changes that are not in what is stored of them."""

    def __init__(self, blobs: Blobs, index: DeltaIndex) -> None:
        self._blobs, self._index = blobs, index
        # The changes of a page stay encoded until the page is read.
        self._stored = [self._read(delta) for delta in index.stored]
        self._fresh: dict[bytes, Changes] = {}
        self.fresh_bytes = 0
        self.unmerged = set(chain.from_iterable(self._stored))

    def _read(self, delta: StoredDelta) -> dict[bytes, bytes]:
        data = self._blobs.get(page_name(_NAME, delta.number))
        if data is None:
            wrong = f"Spark's state store has lost the changes of an earlier batch: there is no delta {delta.number}"
            raise SystemProblem(lost_files(wrong))
        return _decode(data)

    def add(self, page: bytes, prefix: bytes, changes: Mapping[bytes, bytes | None]) -> None:
        """Changes of this batch."""
        self._fresh.setdefault(page, {}).setdefault(prefix, {}).update(changes)
        self.fresh_bytes += len(prefix) + sum(len(key) + len(value or b"") for key, value in changes.items())
        self.unmerged.add(page)

    def of_page(self, page: bytes) -> Iterator[Changes]:
        """The changes of a page, from the oldest."""
        yield from (_decode_changes(delta[page]) for delta in self._stored if page in delta)
        if page in self._fresh:
            yield self._fresh[page]

    def write(self, small: int) -> None:
        """Write the changes of this batch, with the last delta where both together have at most so many bytes."""
        last = self._index.stored[-1] if self._index.stored else None
        if last is not None and last.byte_count + self.fresh_bytes <= small:
            self._put(last.number, self._with_fresh(self._stored[-1]))
            self._index.stored.remove(last)
            return
        number = last.number + 1 if last is not None else 0
        for part in self._parts():
            self._put(number, part)
            number += 1

    def _with_fresh(self, delta: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        joined = dict(delta)
        for page, fresh in self._fresh.items():
            changes = _decode_changes(delta[page]) if page in delta else {}
            for prefix, entries in fresh.items():
                changes.setdefault(prefix, {}).update(entries)
            joined[page] = _encode(changes)
        return joined

    def _parts(self) -> Iterator[dict[bytes, bytes]]:
        part: dict[bytes, bytes] = {}
        size = 0
        for page, changes in self._fresh.items():
            part[page] = _encode(changes)
            size += len(part[page])
            if size >= LARGE:
                yield part
                part, size = {}, 0
        if part:
            yield part

    def _put(self, number: int, delta: dict[bytes, bytes]) -> None:
        data = _encode(delta)
        self._blobs.put(page_name(_NAME, number), data)
        self._index.stored.append(StoredDelta(number, len(data), self._index.round, self._index.page))

    def remove_merged(self) -> None:
        """Remove the deltas that all pages have been merged with; all of them, if no page is left to merge."""
        while self._index.stored and (not self.unmerged or self._index.is_merged(self._index.stored[0])):
            self._blobs.remove(page_name(_NAME, self._index.stored.pop(0).number))
        if not self._index.stored:
            self._index.round, self._index.page, self._index.credit = 0, b"", 0

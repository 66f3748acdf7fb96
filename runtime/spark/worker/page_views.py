"""The pages of a bucket as they are read: what is stored of each, with the changes that deltas have of it."""

import zlib
from typing import Any

import msgspec

from .page_deltas import Blobs, PageDeltas
from .page_index import SHARED, PageIndex, name_parts, page_name, page_number

HELD = 64 << 20
"""Encoded bytes of pages from which the decoded ones are dropped from memory, to be read again where they are used."""
_decode = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_decode_shared = msgspec.msgpack.Decoder(dict[bytes, dict[bytes, bytes]]).decode
_encode = msgspec.msgpack.Encoder().encode


class PageViews:
    """The pages of a bucket. A page of its own belongs to one prefix; a shared one has the entries of many, by prefix.

    What is changed here is written by `merge` and `put`, or by the deltas.
    """

    def __init__(self, blobs: Blobs, index: PageIndex, deltas: PageDeltas) -> None:
        self._blobs, self._index, self._deltas = blobs, index, deltas
        self._own: dict[bytes, dict[bytes, bytes]] = {}
        self._shared: dict[bytes, dict[bytes, dict[bytes, bytes]]] = {}
        self._held = 0

    def own(self, prefix: bytes, number: int) -> dict[bytes, bytes]:
        """The entries of a page of a prefix."""
        name = page_name(prefix, number)
        page = self._own.get(name)
        if page is None:
            data = self._load(name)
            page = self._own[name] = {} if data is None else _decode(data)
            size = self._index.prefixes.get(prefix)
            # Deltas may have changes of a page that was removed since.
            for changes in self._deltas.of_page(name) if size is not None and number < size.pages else ():
                _apply(page, changes.get(prefix, {}))
        return page

    def shared(self, number: int) -> dict[bytes, dict[bytes, bytes]]:
        """The entries of a shared page, by prefix."""
        name = page_name(SHARED, number)
        page = self._shared.get(name)
        if page is None:
            data = self._load(name)
            page = self._shared[name] = {} if data is None else _decode_shared(data)
            for changes in self._deltas.of_page(name):
                for prefix, entries in changes.items():
                    _apply_shared(page, prefix, entries)
        return page

    def shared_number(self, prefix: bytes) -> int:
        """The number of the shared page of a prefix."""
        return page_number(zlib.crc32(prefix), self._index.shared)

    def _load(self, name: bytes) -> bytes | None:
        data = self._blobs.get(name)
        self._held += len(data or b"")
        if self._held > HELD:
            self._own.clear()
            self._shared.clear()
            self._held = len(data or b"")
        return data

    def change(self, name: bytes, prefix: bytes, changes: dict[bytes, bytes | None]) -> None:
        """Change entries of a prefix in the page of that name."""
        self._deltas.add(name, prefix, changes)
        if name in self._own:
            _apply(self._own[name], changes)
        elif name in self._shared:
            _apply_shared(self._shared[name], prefix, changes)

    def put(self, name: bytes, page: dict[bytes, Any]) -> None:
        """Store a page as a whole."""
        if page:
            self._blobs.put(name, _encode(page))
        else:
            self._blobs.remove(name)
        (self._shared if name_parts(name)[0] == SHARED else self._own)[name] = page
        self._deltas.unmerged.discard(name)

    def place(self, name: bytes, page: dict[bytes, Any]) -> None:
        """Store a page whose entries were in other pages. What deltas have of it is from before that, so there is a
        change for each of those entries."""
        prefix, _ = name_parts(name)
        for changes in [*self._deltas.of_page(name)]:
            for of, entries in changes.items():
                held = page.get(of, {}) if prefix == SHARED else page
                self._deltas.add(name, of, {key: held.get(key) for key in entries})
        self.put(name, page)

    def merge(self, name: bytes) -> None:
        """Store a page with all of its changes."""
        prefix, number = name_parts(name)
        self.put(name, self.shared(number) if prefix == SHARED else self.own(prefix, number))

    def remove(self, name: bytes) -> None:
        """Remove a page from the state, and forget what this view holds of it."""
        self._blobs.remove(name)
        self._own.pop(name, None)
        self._shared.pop(name, None)
        self._deltas.unmerged.discard(name)


def _apply(page: dict[bytes, bytes], changes: dict[bytes, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            page.pop(key, None)
        else:
            page[key] = value


def _apply_shared(page: dict[bytes, dict[bytes, bytes]], prefix: bytes, changes: dict[bytes, bytes | None]) -> None:
    entries = page.setdefault(prefix, {})
    _apply(entries, changes)
    if not entries:
        del page[prefix]

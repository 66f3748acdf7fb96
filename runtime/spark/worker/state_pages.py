"""State pages: the state of one bucket in Spark's state store, many entries to a page.

One call to Spark's store costs as much as hundreds of entries, so entries share pages. The pages of a prefix hold its
entries by the hash of their keys. A page is read when it is first used in a batch, and written back if it has changed.
The number of a prefix's pages doubles when they are full on average; the page index has that number. A prefix with few
entries has no page of its own: see `shared_pages`.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Protocol

import msgspec

from ...kernel.state_backend import PREFIX_SIZE, Change
from ...kernel.time.bounds import START
from ...kernel.time.position import POSITION_BY_OPERATOR, Cursor, Position
from ...kernel.time.watermark_node import slowest
from ..key_buckets import MOST
from .shared_pages import SharedPages

VERSION = 2
"""In version 1 a position had a watermark for each producer of a stream; now it has one for the whole stream."""
_ALWAYS = ("producers", *POSITION_BY_OPERATOR)
"""The fields of a position that are saved for every stage."""
_BY_CLOCK = ("idle", "rested", "clock")
"""The fields that are saved besides for a stage that depends on processing time."""
FULL = 2000
"""Entries to a page, on average, at which the number of pages doubles."""
FULL_BYTES = 256 << 10
"""Bytes of keys and values to a page, on average, at which the number of pages doubles: no entry is large, since the
kernel stores large values in chunks."""


class StateBlobs(Protocol):
    """Where pages are stored, as bytes by name: Spark's map state, or a dictionary in tests."""

    def get(self, name: bytes) -> bytes | None:
        """A page by name; None if there is none."""
        ...

    def put(self, name: bytes, data: bytes) -> None:
        """Store a page, in place of the one of that name."""
        ...

    def remove(self, name: bytes) -> None:
        """Remove the page of that name, for which `get` then gives None."""
        ...


class _PrefixSize(msgspec.Struct, array_like=True):
    """How many pages of its own a prefix has, 0 where it is in a shared one, and how many entries and bytes it has. An
    earlier version did not count the bytes: of its entries those are counted that have changed since, and all of them
    once the pages have doubled."""

    pages: int = 1
    entries: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether there are to be more pages. Each page holds an entry at least."""
        too_many = self.entries > FULL * self.pages
        return too_many or (self.bytes > FULL_BYTES * self.pages and self.entries > self.pages)


class PageIndex(msgspec.Struct, array_like=True):
    """The pages of each prefix in a bucket, and the positions of its inputs, by stage.

    The fields that `Position` has as well mean the same here. `resets` counts how often the state of an operator was
    removed. A key's page depends on its hash without the last `shift` bits. There are `shared` pages for prefixes with
    few entries. The struct is an array in Spark's state store: new fields come last, and one that is no longer used
    stays.
    """

    version: int = VERSION
    prefixes: dict[bytes, _PrefixSize] = {}
    highs: dict[str, dict[str, int]] = {}
    producers: dict[str, dict[str, dict[int, int]]] = {}
    idle: dict[str, dict[str, list[int]]] = {}
    clocks: dict[str, int] = {}
    met: dict[str, dict[str, int]] = {}
    heard: dict[str, dict[str, dict[int, int]]] = {}
    rested: dict[str, dict[str, dict[int, int]]] = {}
    resets: dict[str, int] = {}
    lateness: dict[str, dict[str, int]] = {}
    forgotten: dict[str, dict[str, int]] = {}
    reached: dict[str, dict[str, int]] = {}
    clock_fired: dict[str, dict[str, int]] = {}
    versions: dict[str, dict[str, int]] = {}
    built: dict[str, dict[str, int]] = {}
    fired_at_end: dict[str, dict[str, int]] = {}
    cursors: dict[str, dict[str, Cursor]] = {}
    shift: int = 8
    shared: int = 1
    shared_bytes: int = 0

    def position(self, stage: str) -> Position:
        """Where the stage was after the last batch of this bucket; the start of all inputs if it was not there yet."""
        fields = {name: self._by_stage(name) for name in (*_ALWAYS, *_BY_CLOCK, "met")}
        return Position(**{name: by_stage[stage] for name, by_stage in fields.items() if stage in by_stage})

    def remember(self, stage: str, position: Position, *, clocked: bool) -> None:
        """Save the position of a stage; `clocked` says whether the stage depends on processing time."""
        for name in (*_ALWAYS, *(_BY_CLOCK if clocked else ())):
            self._by_stage(name)[stage] = getattr(position, name)
        if clocked:
            self.met.pop(stage, None)

    def forget(self, operator: str) -> None:
        """Remove what positions say about the state of an operator."""
        for name in POSITION_BY_OPERATOR:
            for by_operator in self._by_stage(name).values():
                by_operator.pop(operator, None)

    def convert(self, producers: Mapping[str, int]) -> None:
        """Convert positions of version 1, where `producers` has the number of each stream's producers."""
        if self.version == VERSION:
            return
        self.version = VERSION
        self.heard = {}
        for stage, by_stream in self.producers.items():
            idle, rested = self.idle.pop(stage, {}), self.rested.pop(stage, {})
            whole: dict[str, dict[int, int]] = {}
            for stream, marks in by_stream.items():
                # Before all producers had reported, the stream had no watermark.
                if len(marks) == producers.get(stream):
                    resting = dict.fromkeys(idle.get(stream, ()), START) | rested.get(stream, {})
                    least, _ = slowest(
                        (max(resting.get(one, mark), mark), one in resting) for one, mark in marks.items()
                    )
                    whole[stream] = {0: least}
            self.producers[stage] = whole

    def _by_stage(self, name: str) -> dict[str, Any]:
        """The values of a field of `Position`, by stage."""
        by_stage: dict[str, Any] = getattr(self, "clocks" if name == "clock" else name)
        return by_stage


_SHIFT = MOST.bit_length() - 1
_INDEX = b"\0index"
_index_decoder = msgspec.msgpack.Decoder(PageIndex)
_page_decoder = msgspec.msgpack.Decoder(dict[bytes, bytes])
_encode = msgspec.msgpack.Encoder().encode


class StatePages:
    """The state backend of a bucket: the kernel's state reads its entries here, and its changes are written here. It is
    `empty` if nothing was written before."""

    def __init__(self, blobs: StateBlobs) -> None:
        self._blobs = blobs
        data = blobs.get(_INDEX)
        self.empty = data is None
        self.index = PageIndex(shift=_SHIFT) if data is None else _index_decoder.decode(data)
        self._loaded: dict[bytes, dict[bytes, bytes]] = {}
        self._shared = SharedPages(blobs, self.index.shared)

    def _name(self, prefix: bytes, number: int) -> bytes:
        return prefix + number.to_bytes(3, "big")

    def _page(self, prefix: bytes, number: int) -> dict[bytes, bytes]:
        name = self._name(prefix, number)
        page = self._loaded.get(name)
        if page is None:
            data = self._blobs.get(name)
            page = self._loaded[name] = {} if data is None else _page_decoder.decode(data)
        return page

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key, from its page; None if there is none."""
        size = self.index.prefixes.get(prefix)
        if size is None:
            return None
        return self._page_of(prefix, key, size).get(key)

    def _page_of(self, prefix: bytes, key: bytes, size: _PrefixSize) -> dict[bytes, bytes]:
        if not size.pages:
            return self._shared.entries(prefix)
        return self._page(prefix, _slot(key, size.pages, self.index.shift))

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys. Reads all its pages."""
        size = self.index.prefixes.get(prefix)
        if size is not None and not size.pages:
            return iter(sorted(self._shared.entries(prefix).items()))
        pages = range(size.pages if size else 0)
        return iter(sorted(chain.from_iterable(self._page(prefix, number).items() for number in pages)))

    def holds(self, prefix: bytes) -> bool:
        """Whether there are entries under a prefix. No page is read."""
        return prefix in self.index.prefixes

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes that begin with `start`, are PREFIX_SIZE bytes longer, and have entries; in order."""
        size = len(start) + PREFIX_SIZE
        return iter(
            sorted(prefix for prefix in self.index.prefixes if prefix.startswith(start) and len(prefix) == size)
        )

    def reset(self, wanted: Mapping[str, int]) -> None:
        """Remove the state of each operator that was reset since this bucket's last batch. `wanted` counts the resets
        of each operator."""
        for operator, count in wanted.items():
            if self.index.resets.get(operator, 0) < count:
                start = operator.encode() + b"\0"
                for prefix in [prefix for prefix in self.index.prefixes if prefix.startswith(start)]:
                    self._clear(prefix, self.index.prefixes[prefix])
                self.index.forget(operator)
                self.index.resets[operator] = count

    def write(self, changes: Iterable[Change]) -> None:
        """Apply changes, and write back the changed pages and the index."""
        by_prefix: dict[bytes, dict[bytes, bytes | None]] = {}
        for prefix, key, value in changes:
            if key is None:
                by_prefix[prefix] = {name: None for name, _ in self.scan(prefix)}
            else:
                by_prefix.setdefault(prefix, {})[key] = value
        for prefix, entries in by_prefix.items():
            size = self.index.prefixes.setdefault(prefix, _PrefixSize(pages=0)) if entries else None
            if size is not None:
                (self._write_prefix if size.pages else self._write_shared)(prefix, size, entries)
        self._fit_shared()
        self._shared.write()
        self._blobs.put(_INDEX, _encode(self.index))

    def _write_shared(self, prefix: bytes, size: _PrefixSize, changes: Mapping[bytes, bytes | None]) -> None:
        """Change a prefix that is in a shared page. Once it has more than a few entries, it gets pages of its own."""
        entries, before = dict(self._shared.entries(prefix)), size.bytes
        for key, value in changes.items():
            _change(size, entries, key, value)
        few = size.entries <= FULL // 4 and size.bytes <= FULL_BYTES // 4
        self._shared.put(prefix, entries if few else {})
        self.index.shared_bytes += (size.bytes if few else 0) - before
        if not size.entries:
            del self.index.prefixes[prefix]
        elif not few:
            size.pages = 1
            self._loaded[self._name(prefix, 0)] = entries
            for number in sorted(self._spread(prefix, size) if size.full else {0}):
                self._write_page(prefix, number)

    def _fit_shared(self) -> None:
        """Double the number of shared pages until they are not full."""
        pages = 1 if not self.index.shared_bytes else self.index.shared
        while self.index.shared_bytes > FULL_BYTES * pages:
            pages *= 2
        if pages != self.index.shared:
            self._shared.spread(pages)
            self.index.shared = pages

    def _write_prefix(self, prefix: bytes, size: _PrefixSize, changes: Mapping[bytes, bytes | None]) -> None:
        touched = set()
        for key, value in changes.items():
            number = _slot(key, size.pages, self.index.shift)
            _change(size, self._page(prefix, number), key, value)
            touched.add(number)
        if size.full:
            touched = self._spread(prefix, size)
        for number in sorted(touched):
            self._write_page(prefix, number)
        if size.entries == 0:
            self._clear(prefix, size)

    def _spread(self, prefix: bytes, size: _PrefixSize) -> set[int]:
        """Double the pages of a prefix until they are not full, and give each entry its new page."""
        entries = list(self.scan(prefix))
        size.bytes = sum(len(key) + len(value) for key, value in entries)
        while size.full:
            size.pages *= 2
        for number in range(size.pages):
            self._loaded[self._name(prefix, number)] = {}
        for key, value in entries:
            self._loaded[self._name(prefix, _slot(key, size.pages, self.index.shift))][key] = value
        return set(range(size.pages))

    def _write_page(self, prefix: bytes, number: int) -> None:
        name = self._name(prefix, number)
        page = self._loaded[name]
        if page:
            self._blobs.put(name, _encode(page))
        else:
            self._blobs.remove(name)

    def _clear(self, prefix: bytes, size: _PrefixSize) -> None:
        if not size.pages:
            self._shared.put(prefix, {})
            self.index.shared_bytes -= size.bytes
        for number in range(size.pages):
            self._blobs.remove(self._name(prefix, number))
            self._loaded.pop(self._name(prefix, number), None)
        del self.index.prefixes[prefix]


def _slot(key: bytes, pages: int, shift: int) -> int:
    # The low bits of the hash have chosen the bucket, so they are the same for all keys of this bucket.
    return (zlib.crc32(key) >> shift) % pages


def _change(size: _PrefixSize, page: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    """Set the value of a key in the page that it is in, or remove it, and count that."""
    before = page.pop(key, None)
    if before is not None:
        size.entries -= 1
        size.bytes = max(0, size.bytes - len(key) - len(before))
    if value is not None:
        page[key] = value
        size.entries += 1
        size.bytes += len(key) + len(value)

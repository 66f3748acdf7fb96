"""State pages: the state of one bucket in Spark's state store, many entries to a page.

One call to Spark's store costs as much as hundreds of entries, so entries share pages. The pages of a prefix hold its
entries by the hash of their keys. A page is read when it is first used in a batch. A prefix gets one page more when its
pages are full on average; the page index has their number. Prefixes with few entries share pages: a bucket has a part
of the keys, so each of its many windows has few.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from ...kernel.state_backend import PREFIX_SIZE, Change
from . import page_index
from .page_deltas import SMALL, Blobs, PageDeltas
from .page_index import SHARED, SHIFT, PageIndex, PrefixSize, name_parts, page_name, split_page
from .page_views import PageViews

MERGED = 4
"""Bytes of pages that are merged for each byte that a delta has, so the deltas of a bucket have about a quarter of the
bytes of its pages at most."""
# With more, batches with few changes write whole pages; with less, deltas are written that are merged again at once.
SPARSE = 6
"""Bytes of pages that a batch writes for each byte that it changes, rather than a delta: what that costs in the end."""
FEW_BYTES = 16 << 10
"""Bytes of pages that a batch writes in any case, rather than a delta."""
DELTAS = 64
"""A delta is as large as this part of the pages, at least."""
INDEX = b"\0index"
"""The name of the page index."""
_index_decoder = msgspec.msgpack.Decoder(PageIndex)
_encode = msgspec.msgpack.Encoder().encode


class StatePages:
    """The state backend of a bucket: the kernel's state reads its entries here, and its changes are written here. It is
    `empty` if nothing was written before."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        data = blobs.get(INDEX)
        self.empty = data is None
        self.index = PageIndex(shift=SHIFT) if data is None else _index_decoder.decode(data)
        self._deltas = PageDeltas(blobs, self.index.deltas)
        self._views = PageViews(blobs, self.index, self._deltas)

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key, from its page; None if there is none."""
        size = self.index.prefixes.get(prefix)
        if size is None:
            return None
        if not size.pages:
            return self._shared_entries(prefix).get(key)
        return self._views.own(prefix, size.page_of(key, self.index.shift)).get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys. Reads all its pages."""
        size = self.index.prefixes.get(prefix)
        if size is not None and not size.pages:
            return iter(sorted(self._shared_entries(prefix).items()))
        pages = range(size.pages if size else 0)
        return iter(sorted(chain.from_iterable(self._views.own(prefix, number).items() for number in pages)))

    def _shared_entries(self, prefix: bytes) -> dict[bytes, bytes]:
        return self._views.shared(self._views.shared_number(prefix)).get(prefix, {})

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
                    self._remove(prefix)
                self.index.forget(operator)
                self.index.resets[operator] = count

    def write(self, changes: Iterable[Change]) -> None:
        """Apply changes, and write the pages that they are in, or a delta and some pages, and the index.

        A delta is written where the pages have many times the bytes of the changes. Then pages with changes of earlier
        deltas are merged in turn, so that each byte that is changed costs as much over time.
        """
        by_prefix: dict[bytes, dict[bytes, bytes | None]] = {}
        for prefix, key, value in changes:
            if key is None:
                by_prefix.pop(prefix, None)
                self._remove(prefix)
            else:
                by_prefix.setdefault(prefix, {})[key] = value
        for prefix, entries in by_prefix.items():
            size = self.index.prefixes.setdefault(prefix, PrefixSize(pages=0))
            (self._change_own if size.pages else self._change_shared)(prefix, size, entries)
        self._grow_shared()
        self._write_changes()
        # Always: it has the position in time too, which moves with each batch.
        self._blobs.put(INDEX, _encode(self.index))

    def _write_changes(self) -> None:
        deltas, index = self._deltas, self.index.deltas
        unmerged = sum(map(self._page_bytes, deltas.unmerged))
        if unmerged <= FEW_BYTES + SPARSE * deltas.fresh_bytes:
            for name in sorted(deltas.unmerged):
                self._views.merge(name)
        elif deltas.fresh_bytes:
            deltas.write(max(SMALL, unmerged // DELTAS))
            index.credit += MERGED * deltas.fresh_bytes
            self._merge_some()
        deltas.remove_merged()

    def _merge_some(self) -> None:
        """Merge pages in the order of their names, as far as the credit goes."""
        index, unmerged = self.index.deltas, sorted(self._deltas.unmerged)
        behind = [name for name in unmerged if name > index.page]
        for name in (*behind, *unmerged[: len(unmerged) - len(behind)]):
            size = self._page_bytes(name)
            if index.credit < size:
                return
            index.credit -= size
            index.round, index.page = index.round + (name <= index.page), name
            self._views.merge(name)

    def _page_bytes(self, name: bytes) -> int:
        """About how many bytes a page has."""
        prefix, _ = name_parts(name)
        if prefix == SHARED:
            return self.index.shared_bytes // self.index.shared
        size = self.index.prefixes.get(prefix)
        return size.byte_count // size.pages if size and size.pages else 0

    def _change_shared(self, prefix: bytes, size: PrefixSize, changes: dict[bytes, bytes | None]) -> None:
        """Change a prefix that is in a shared page. Once it has more than a few entries, it gets pages of its own."""
        before = size.byte_count
        number = self._views.shared_number(prefix)
        _count(size, self._shared_entries(prefix), changes)
        name = page_name(SHARED, number)
        self._views.change(name, prefix, changes)
        few = size.entries <= page_index.FULL // 4 and size.byte_count <= page_index.FULL_BYTES // 4
        self.index.shared_bytes += (size.byte_count if few else 0) - before
        if not size.entries:
            del self.index.prefixes[prefix]
        elif not few:
            page = self._views.shared(number)
            entries = page.pop(prefix)
            self._views.place(name, page)
            size.byte_count = sum(len(key) + len(value) for key, value in entries.items())
            size.pages = size.wanted
            self._place(prefix, size, entries)

    def _change_own(self, prefix: bytes, size: PrefixSize, changes: dict[bytes, bytes | None]) -> None:
        by_page: dict[int, dict[bytes, bytes | None]] = {}
        for key, value in changes.items():
            by_page.setdefault(size.page_of(key, self.index.shift), {})[key] = value
        for number, of_page in sorted(by_page.items()):
            _count(size, self._views.own(prefix, number), of_page)
            self._views.change(page_name(prefix, number), prefix, of_page)
        if not size.entries:
            self._remove(prefix)
        # All at once where many were added, as by a first batch: to split page by page would write most of them several
        # times.
        elif size.wanted >= 2 * size.pages:
            entries = dict(self.scan(prefix))
            size.byte_count = sum(len(key) + len(value) for key, value in entries.items())
            size.pages = max(size.pages, size.wanted)
            self._place(prefix, size, entries)
        while size.pages and size.wanted > size.pages:
            self._split(prefix, size)

    def _split(self, prefix: bytes, size: PrefixSize) -> None:
        """Give a prefix one page more, which gets entries of one other."""
        number = split_page(size.pages)
        entries = self._views.own(prefix, number)
        size.pages += 1
        self._place(prefix, size, entries, (number, size.pages - 1))

    def _place(
        self, prefix: bytes, size: PrefixSize, entries: Mapping[bytes, bytes], numbers: Iterable[int] | None = None
    ) -> None:
        """Write pages of a prefix, all of them without `numbers`, with the entries that belong in them."""
        pages: dict[int, dict[bytes, bytes]] = {number: {} for number in numbers or range(size.pages)}
        for key, value in entries.items():
            pages[size.page_of(key, self.index.shift)][key] = value
        for number, page in pages.items():
            self._views.place(page_name(prefix, number), page)

    def _grow_shared(self) -> None:
        """Add shared pages until they are not full; leave one when they are empty."""
        index = self.index
        if not index.shared_bytes and index.shared > 1:
            for number in range(index.shared):
                self._views.remove(page_name(SHARED, number))
            index.shared = 1
        while index.shared_bytes > page_index.FULL_BYTES * index.shared:
            number = split_page(index.shared)
            entries = self._views.shared(number)
            index.shared += 1
            pages: dict[int, dict[bytes, dict[bytes, bytes]]] = {number: {}, index.shared - 1: {}}
            for prefix, of_prefix in entries.items():
                pages[self._views.shared_number(prefix)][prefix] = of_prefix
            for number, page in pages.items():
                self._views.place(page_name(SHARED, number), page)

    def _remove(self, prefix: bytes) -> None:
        """Remove all entries of a prefix, if it has any."""
        size = self.index.prefixes.get(prefix)
        if size is None:
            return
        if not size.pages:
            name = page_name(SHARED, self._views.shared_number(prefix))
            self._views.change(name, prefix, dict.fromkeys(self._shared_entries(prefix)))
            self.index.shared_bytes -= size.byte_count
        for number in range(size.pages):
            self._views.remove(page_name(prefix, number))
        del self.index.prefixes[prefix]


def _count(size: PrefixSize, page: Mapping[bytes, bytes], changes: Mapping[bytes, bytes | None]) -> None:
    """Count changes of a page that holds these entries."""
    for key, value in changes.items():
        before = page.get(key)
        if before is not None:
            size.entries -= 1
            size.byte_count = max(0, size.byte_count - len(key) - len(before))
        if value is not None:
            size.entries += 1
            size.byte_count += len(key) + len(value)

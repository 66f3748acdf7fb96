"""Keyed state: decoded values in memory, in front of a backend that holds their bytes.

A value is decoded once, when it is first read, and encoded once a commit. There are three kinds of state:
`KeyedState` holds a value per key. `TimeBucketedState` holds a value per time and key, and can be walked in the order
of its times, which are the operator's timers. `StateNamespace`, in `operators/state_entries.py`, holds entries under a
prefix, which may expire, and is for processors and deduplication. An engine brings the `StateBackend`: RocksDB, a
dictionary, or Spark's state. Changes stay in memory until `changes` hands them over, so that an engine writes them all
at once.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from struct import Struct as Layout
from typing import Any, NamedTuple

import msgspec

from .chunked_values import CHUNK, MARK, ChunkedValues
from .state_backend import Change, StateBackend
from .state_codec import Codec, MsgpackCodec, unreadable
from .value_copies import ValueSnapshot, of_any

_MISSING: Any = object()
_TIME = Layout(">Q")

# Makes a signed time unsigned: only then do its bytes sort as the times do.
_BIAS = 2**63

LIGHT = 128
"""The least number of bytes that an entry in memory is counted with. The size of a smaller entry is not recorded."""


class Size(NamedTuple):
    """A number of entries, and the bytes of their keys and encoded values: at least LIGHT for each entry."""

    entries: int
    bytes: int


class Share(NamedTuple):
    """The fractions of a size that stay in memory, from 0 to 1."""

    entries: float
    bytes: float


LARGEST_KEY = 512 << 10
"""The most bytes of a key. Values are stored in chunks, keys are not: a changelog would refuse the record."""


class KeyTooLarge(ValueError):
    """A key is larger than state takes: an error of the message that has it."""

    def __init__(self, key: bytes) -> None:
        super().__init__(f"a key of {len(key):,} bytes is too large for state")


class _Fresh(dict[bytes, Any]):
    """The values that changed since the last commit. A lookup of any other value fetches it."""

    __slots__ = ("cache",)

    def __init__(self, cache: "WriteBackCache") -> None:
        self.cache = cache

    def __missing__(self, key: bytes) -> Any:
        cache = self.cache
        if len(key) > LARGEST_KEY:
            raise KeyTooLarge(key)
        return cache.absent() if cache.complete and not cache.clean else cache.fetch(key)


class WriteBackCache:
    """The values under one prefix. `fresh` holds those that changed since the last commit, `clean` those that are equal
    to what the backend holds; the backend alone holds the rest.

    `fresh[key]` gives a value of any of the three, or the result of `absent()` where there is none. `fresh[key] =
    value` changes it. `clean` is ordered by last use, so that the values which were used least recently are evicted
    first. `complete` says that all values are in memory, so that no miss needs a read.
    """

    __slots__ = (
        "_backend", "_chunks", "_codec", "_gone", "_heavy", "_weight", "absent", "clean", "complete", "fresh",
        "measured", "prefix"
    )  # fmt: skip

    def __init__(
        self, prefix: bytes, backend: StateBackend, codec: Codec, absent: Callable[[], Any], complete: bool
    ) -> None:
        self.prefix = prefix
        self.clean: dict[bytes, Any] = {}
        self.complete = complete
        self.fresh: dict[bytes, Any] = _Fresh(self)
        self._backend = backend
        self._codec = codec
        self._chunks = ChunkedValues(prefix, backend, unused=complete or codec.small, lead=codec.lead)
        self.absent = absent
        self.measured = 0  # how many of the fresh values `ChangedBytes` has counted
        self._gone: set[bytes] = set()
        self._heavy: dict[bytes, int] = {}  # the sizes of encoded values above LIGHT
        self._weight = 0  # their sum

    def fetch(self, key: bytes) -> Any:
        """A value that is not in `fresh`."""
        clean = self.clean
        value = clean.pop(key, _MISSING)
        if value is not _MISSING:
            clean[key] = value  # used last
            return value
        if self.complete or key in self._gone:
            return self.absent()
        data = self._backend.get(self.prefix, key)
        if data is None:
            return self.absent()
        if data.startswith(MARK, self._codec.lead):
            data = self._chunks.whole(key, data)
        value = clean[key] = self._decoded(data)
        self._weigh(key, len(key) + len(data))
        return value

    def _weigh(self, key: bytes, size: int) -> None:
        """Record the size of a key and its encoded value."""
        if size > LIGHT:
            self._weight += size - self._heavy.get(key, 0)
            self._heavy[key] = size
        elif self._heavy:
            self._weight -= self._heavy.pop(key, 0)

    def _decoded(self, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except (msgspec.DecodeError, struct.error) as error:
            raise unreadable(self.prefix.partition(b"\0")[0].decode(), error) from error

    def delete(self, key: bytes) -> None:
        """Delete the value of a key, if there is one."""
        self.fresh.pop(key, None)
        written = self.clean.pop(key, _MISSING) is not _MISSING
        self._weigh(key, 0)
        if written or not self.complete:
            self._gone.add(key)

    def undo(self, key: bytes, snapshot: ValueSnapshot = of_any) -> Callable[[], None]:
        """A function that restores a value as it is now. It also takes back changes inside the value, as far as
        `snapshot` knows of them."""
        fresh, clean, gone = self.fresh, self.clean, self._gone
        snapshots = [(entries, snapshot(entries[key])) for entries in (fresh, clean) if key in entries]
        was_gone = key in gone

        def take_back() -> None:
            fresh.pop(key, None)
            clean.pop(key, None)  # a value read from the backend may have been changed in place
            if not was_gone:
                gone.discard(key)
            for entries, restored in snapshots:
                entries[key] = restored()
            if key not in clean:
                self._weigh(key, 0)

        return take_back

    def items(self) -> Iterator[tuple[bytes, Any]]:
        """All keys and values, in the order of the keys. The backend is scanned during the iteration, for its values
        may be more than fit in memory."""
        values = {**self.clean, **self.fresh}
        # Keys alone are sorted faster than pairs.
        held = [(key, values[key]) for key in sorted(values)]
        return iter(held) if self.complete else self._with_stored(held)

    def _with_stored(self, held: list[tuple[bytes, Any]]) -> Iterator[tuple[bytes, Any]]:
        """The values `held` in memory merged with those that the backend alone has."""
        # A commit in the middle does not show in the scan: what was deleted before it stays deleted.
        at, gone, lead = 0, self._gone, self._codec.lead
        for key, data in self._backend.scan(self.prefix):
            while at < len(held) and held[at][0] < key:
                yield held[at]
                at += 1
            # The value in memory is newer.
            if key not in gone and key not in self._gone and not (at < len(held) and held[at][0] == key):
                yield key, self._decoded(self._chunks.whole(key, data) if data.startswith(MARK, lead) else data)
        yield from held[at:]

    @property
    def changed(self) -> int:
        """About how many changes `changes` would yield."""
        return len(self.fresh) + len(self._gone)

    def size_of(self, key: bytes) -> int:
        """The bytes of a changed value and its key as they would be written now: of the key alone where the value
        cannot be encoded, which the commit reports."""
        with suppress(Exception):
            return len(key) + len(self._codec.encode(self.fresh[key]))
        return len(key)

    def forgotten(self) -> list[Change]:
        """The changes that delete all values of this cache from the backend."""
        chunks = self._chunks.forgotten(complete=self.complete)
        if self.complete:
            return [*chunks, *((self.prefix, key, None) for key in {*self.clean, *self._gone})]
        return [*chunks, (self.prefix, None, None)]

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        chunks, stored = self._chunks, self._chunks.stored
        if not self.complete and chunks.in_use:
            for key in {*self._gone, *self.fresh} - stored.keys() - self.clean.keys():
                chunks.learn(key)
        for key in self._gone:
            if key not in self.fresh:
                yield from chunks.removals(key)
                yield self.prefix, key, None
        encode, unpacked, lead = self._codec.encode, not self._codec.packed, self._codec.lead
        prefix, heavy, weigh = self.prefix, self._heavy, self._weigh
        for key, value in self.fresh.items():
            data = encode(value)
            size = len(key) + len(data)
            if size > LIGHT or heavy or stored or unpacked:
                weigh(key, size)
                if len(data) > CHUNK or key in stored or (unpacked and data.startswith(MARK, lead)):
                    yield from chunks.changes(key, data)
                    continue
            yield prefix, key, data

    def mark_committed(self) -> None:
        """The changes are committed: the fresh values are clean."""
        self.clean.update(self.fresh)
        self.fresh.clear()
        self.measured = 0
        self._gone = set()  # another one: see `_with_stored`

    @property
    def held(self) -> Size:
        """The size of the clean values."""
        return Size(len(self.clean), len(self.clean) * LIGHT + self._weight)

    def evict(self, share: Share) -> None:
        """Keep this share of the clean values in memory: those that were used most recently."""
        clean, size = self.clean, self.held.bytes
        most, largest = int(len(clean) * share.entries), int(size * share.bytes)
        left, heavy = len(clean), self._heavy
        gone: list[bytes] = []
        for key in clean:
            if left <= most and size <= largest:
                break
            gone.append(key)
            left -= 1
            size -= LIGHT + heavy.get(key, 0)
        for key in gone:
            del clean[key]
            if heavy:
                self._weigh(key, 0)
        self.complete = self.complete and not gone


def evict(caches: Iterable[WriteBackCache], most: Size) -> None:
    """Keep at most `most` clean values in memory. Each cache evicts the same share of its values."""
    caches = list(caches)
    held = [cache.held for cache in caches]
    entries, size = sum(one.entries for one in held), sum(one.bytes for one in held)
    share = Share(min(1.0, most.entries / max(1, entries)), min(1.0, most.bytes / max(1, size)))
    if share < (1.0, 1.0):
        for cache in caches:
            cache.evict(share)


class KeyedState:
    """One value for each key, under one prefix."""

    __slots__ = ("cache",)

    def __init__(self, name: str, backend: StateBackend, type_: Any, absent: Callable[[], Any], complete: bool) -> None:
        self.cache = WriteBackCache(self.prefix_of(name), backend, MsgpackCodec(type_), absent, complete)

    @staticmethod
    def prefix_of(name: str) -> bytes:
        """The prefix of an operator's keys in the backend."""
        return name.encode() + b"\0k"

    def delete(self, key: bytes) -> None:
        """Delete the value of a key, if there is one."""
        self.cache.delete(key)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self.cache.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return self.cache.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self.cache.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return (self.cache,)


class TimeBucketedState:
    """A value per time and key: a cache for each time. `on_new(time)` is called when a time is first used. `mark`, a
    byte, distinguishes several such states of one operator."""

    __slots__ = ("_absent", "_backend", "_codec", "_dropped", "_on_new", "_order", "_prefix", "at")

    def __init__(
        self,
        name: str,
        backend: StateBackend,
        type_: Any,
        absent: Callable[[], Any],
        complete: bool,
        on_new: Callable[[int], None],
        *,
        mark: bytes = b"t",
    ) -> None:
        self._prefix = name.encode() + b"\0" + mark
        self._backend = backend
        self._codec = MsgpackCodec(type_)
        self._absent = absent
        self._on_new = on_new
        self._dropped: list[Change] = []
        self.at: dict[int, WriteBackCache] = {}
        self._order: list[int] = []  # a heap of the times; one that was dropped is removed when it comes first
        for time in [] if complete else self._stored_times():
            self.at[time] = WriteBackCache(self._name(time), backend, self._codec, absent, complete=False)
            heappush(self._order, time)
            on_new(time)

    def _name(self, time: int) -> bytes:
        return self._prefix + _TIME.pack(time + _BIAS) + b"\0"

    def _stored_times(self) -> Iterator[int]:
        for prefix in self._backend.prefixes(self._prefix):
            yield _TIME.unpack(prefix[len(self._prefix) : -1])[0] - _BIAS

    def fresh(self, time: int) -> dict[bytes, Any]:
        """The values of a time, to be read and changed: see `WriteBackCache.fresh`."""
        cache = self.at.get(time)
        if cache is None:
            # A time that is used again after `drop` must not read the dropped values from the backend: it is complete.
            cache = self.at[time] = WriteBackCache(
                self._name(time), self._backend, self._codec, self._absent, complete=True
            )
            heappush(self._order, time)
            self._on_new(time)
        return cache.fresh

    def undo(self, time: int, key: bytes, snapshot: ValueSnapshot = of_any) -> Callable[[], None]:
        """A function that restores a value as it is now: see `WriteBackCache.undo`. It removes a time that is not in
        use now."""
        cache = self.at.get(time)
        if cache is not None:
            return cache.undo(key, snapshot)

        def take_back() -> None:
            self.at.pop(time, None)

        return take_back

    def first(self) -> int | None:
        """The earliest time that holds values."""
        while self._order and self._order[0] not in self.at:
            heappop(self._order)
        return self._order[0] if self._order else None

    def drop(self, time: int) -> None:
        """Forget a time and its values."""
        cache = self.at.pop(time)
        self._dropped += cache.forgotten()
        # The cache and its fresh values refer to each other. Without the reference, the memory is freed at once; a
        # cycle would wait for the garbage collector's oldest generation, which runs seldom.
        cache.fresh = {}

    @property
    def changed(self) -> int:
        """About how many changes `changes` would yield."""
        return sum(cache.changed for cache in self.at.values()) + len(self._dropped)

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        yield from self._dropped
        for cache in self.at.values():
            yield from cache.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._dropped.clear()
        for cache in self.at.values():
            cache.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return self.at.values()

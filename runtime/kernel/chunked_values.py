"""Large values in chunks: a commit writes only those chunks of a value that have changed. So a list that grows, such as
the accumulator of `collect()`, is written little by little, and no record of a changelog and no page of state is large.

The entry of a value in chunks has MARK, the size of the value, and its first HEAD bytes: what changes with each
message, such as the number of items, is there. The rest is in chunks of CHUNK bytes, and what does not fill one, in
chunks of LAST_CHUNK bytes. They are entries under a prefix of their own, each by the key and the byte where it starts.

One more stretch of CHUNK bytes may be in small chunks, and the entry says where: the `hot` one, where a value that else
only grows has changed last. A session behind one that is kept for late messages has its number of items there.

Some values begin with `lead` bytes that are no part of what their codec encodes, such as their time. In the entry they
stay in front of MARK: an earlier version reads them, and then refuses what follows. It would take MARK for a time.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from struct import Struct as Layout

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from .state_backend import Change, StateBackend

CHUNK = 32 << 10
"""The bytes of a chunk. A value that has more is stored in chunks."""
LAST_CHUNK = 1 << 10
"""The bytes of the chunks at the end of a value: a list that grows a little rewrites the last of them, not CHUNK. They
have more bytes, up to CHUNK, where the key does: each chunk has the key besides."""
HEAD = 128
"""How many bytes of a value in chunks are in its entry."""
MARK = b"\xc1chunks\x01"
"""What the entry of a value in chunks begins with, after `lead`. No MessagePack does: earlier versions refuse the
state. A value of another encoding that begins so is stored in chunks, whatever its size."""

_SIZE = Layout(">Q")
_ENTRY = Layout(">QQ")
"""The size of a value, and the start of its hot stretch; 0 for none."""
_KEY_SIZE = Layout(">I")
# What stands before the first chunk. Stored values depend on it: to change it is a change of format.
_FIRST = len(MARK) + _ENTRY.size
_DIGEST = 16
"""The bytes of a digest."""

_Bounds = tuple[int, int]
"""Where a chunk starts in the value, and where it ends."""
_Stored = dict[int, tuple[_Bounds, bytes]]
"""Chunks with their digests, by the bytes where they start."""


class ChunkedValues:
    """The chunks of the large values under one prefix of a backend. With `unused` there are none so far.

    `stored` has, for each value that is known to be in chunks, its size, the start of its hot stretch, and the digests
    of its chunks, one after the other. To replace or delete a value, its chunks must be known: they are if it was read
    or written, else by `learn`.
    """

    __slots__ = ("_backend", "_lead", "_prefix", "_unused", "_values", "stored")

    def __init__(self, values: bytes, backend: StateBackend, *, unused: bool, lead: int = 0) -> None:
        self._values = values
        self._lead = lead
        self._prefix = chunk_prefix(values)
        self._backend = backend
        self._unused: bool | None = unused or None
        self.stored: dict[bytes, tuple[int, int, bytes]] = {}

    def whole(self, key: bytes, entry: bytes) -> bytes:
        """A value in chunks, given its entry. Raises SystemProblem if a chunk is missing."""
        data = whole_value(self._backend.get, self._values, key, entry, self._lead)
        self._unused = False
        size, hot = _size_and_hot(entry, self._lead)
        self.stored[key] = size, hot, b"".join(_digest(data, bounds) for bounds in _bounds(key, size, hot))
        return data

    @property
    def in_use(self) -> bool:
        """Whether any value is stored in chunks. It is looked up once."""
        if self._unused is None:
            self._unused = not self._backend.holds(self._prefix)
        return not self._unused

    def learn(self, key: bytes) -> None:
        """Find out which chunks are stored of a value that was neither read nor written."""
        entry = self._backend.get(self._values, key)
        if entry is not None and entry.startswith(MARK, self._lead):
            self.stored[key] = *_size_and_hot(entry, self._lead), b""

    def changes(self, key: bytes, data: bytes) -> Iterator[Change]:
        """The changes that store a value which is large, or was."""
        lead, size = self._lead, len(data)
        before = self._stored(key)
        if not is_large(data, lead):
            yield from self.removals(key)
            yield self._values, key, data
            return
        computed = _digests_of_full(before, data)
        hot = self._hot(key, before, computed, size)
        digests = []
        for bounds in _bounds(key, size, hot):
            digest, known = computed.get(bounds) or _digest(data, bounds), before.pop(bounds[0], None)
            digests.append(digest)
            if known != (bounds, digest):
                yield self._prefix, _placed(key, bounds), data[slice(*bounds)]
        for bounds, _ in before.values():
            yield self._prefix, _placed(key, bounds), None
        self._unused = False
        self.stored[key] = size, hot, b"".join(digests)
        yield self._values, key, data[:lead] + MARK + _ENTRY.pack(size, hot) + data[lead:HEAD]

    def _hot(self, key: bytes, before: _Stored, computed: dict[_Bounds, bytes], size: int) -> int:
        """The start of the hot stretch from now on: of the full chunk that has changed, if no other has."""
        hot = self.stored[key][1] if key in self.stored else 0
        changed = [bounds[0] for bounds, digest in computed.items() if before[bounds[0]][1] != digest]
        if len(changed) == 1 < len(computed):
            return changed[0]
        return hot if hot < _full_end(size) else 0

    def _stored(self, key: bytes) -> _Stored:
        """The stored chunks of a value."""
        size, hot, digests = self.stored.get(key, (0, 0, b""))
        each = enumerate(_bounds(key, size, hot))
        return {bounds[0]: (bounds, digests[at * _DIGEST : (at + 1) * _DIGEST]) for at, bounds in each}

    def removals(self, key: bytes) -> Iterator[Change]:
        """The changes that delete the chunks of a value."""
        size, hot, _ = self.stored.pop(key, (0, 0, b""))
        for bounds in _bounds(key, size, hot):
            yield self._prefix, _placed(key, bounds), None

    def forgotten(self, *, complete: bool) -> list[Change]:
        """The changes that delete all chunks. They are all known if the cache of the values is `complete`."""
        if complete:
            return [change for key in [*self.stored] for change in self.removals(key)]
        return [] if self._unused else [(self._prefix, None, None)]


def is_large(data: bytes, lead: int = 0) -> bool:
    """Whether a value is to be stored in chunks."""
    return len(data) > CHUNK or data.startswith(MARK, lead)


def chunk_prefix(prefix: bytes) -> bytes:
    """The prefix of the chunks of the values under a prefix. No other state of the operator begins so."""
    operator, _, rest = prefix.partition(b"\0")
    return operator + b"\0\1" + rest


def whole_value(
    get: Callable[[bytes, bytes], bytes | None], prefix: bytes, key: bytes, entry: bytes, lead: int = 0
) -> bytes:
    """The value of a key, given its entry; `get` reads its chunks. Raises SystemProblem if a chunk is missing."""
    if not entry.startswith(MARK, lead):
        return entry
    at, (size, hot) = chunk_prefix(prefix), _size_and_hot(entry, lead)
    chunks = (get(at, _placed(key, bounds)) for bounds in _bounds(key, size, hot))
    data = b"".join(chain([entry[:lead], entry[lead + _FIRST :]], (chunk or b"" for chunk in chunks)))
    if len(data) != size:
        operator = prefix.partition(b"\0")[0].decode()
        wrong = f"the state of {operator!r} cannot be read: of a value of {size:,} bytes there are {len(data):,}"
        remedy = "bring the store back from a copy, or give the operator another id to start over"
        raise SystemProblem(explain(wrong, "a store with all chunks of its values", remedy, operator))
    return data


def _size_and_hot(entry: bytes, lead: int) -> tuple[int, int]:
    size, hot = _ENTRY.unpack_from(entry, lead + len(MARK))
    return size, hot


def _digests_of_full(before: _Stored, data: bytes) -> dict[_Bounds, bytes]:
    """The digests, in a value, of the full chunks that are stored with a digest, and that it still has."""
    full = _full_end(len(data))
    known = (bounds for bounds, digest in before.values() if digest and bounds[1] - bounds[0] == CHUNK)
    return {bounds: _digest(data, bounds) for bounds in known if bounds[1] <= full}


def _full_end(size: int) -> int:
    """Where the full chunks of a value end."""
    return HEAD + max(0, size - HEAD) // CHUNK * CHUNK


def _bounds(key: bytes, size: int, hot: int) -> Iterator[_Bounds]:
    """The chunks of a value of so many bytes, behind its head."""
    full, small = _full_end(size), min(CHUNK, max(LAST_CHUNK, len(key)))
    for start in range(HEAD, size, CHUNK):
        end, step = min(size, start + CHUNK), small if start in (hot, full) else CHUNK
        for at in range(start, end, step):
            yield at, min(end, at + step)


def _digest(data: bytes, bounds: _Bounds) -> bytes:
    return blake2b(memoryview(data)[slice(*bounds)], digest_size=_DIGEST).digest()


def _placed(key: bytes, bounds: _Bounds) -> bytes:
    """The key of a chunk."""
    return _KEY_SIZE.pack(len(key)) + key + _SIZE.pack(bounds[0])


def key_of_chunk(placed: bytes) -> bytes:
    """The key of the value that a chunk is of, given that of the chunk."""
    return placed[_KEY_SIZE.size : _KEY_SIZE.size + _KEY_SIZE.unpack_from(placed)[0]]

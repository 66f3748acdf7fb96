"""Keyed state: decoded values in memory over bytes below, so that a value is decoded and encoded once a commit.

A stateful operator sees two kinds of store: `KeyedState`, a value per key, and `TimedState`, a value per time and key
that can also be walked time by time; its times are the operator's timers. Engines bring the bytes (`Bytes`): RocksDB,
a dictionary, or Spark's state. Changes stay in memory until `changes` hands them over, to be written at one stroke.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from struct import Struct as Layout
from typing import Any, NamedTuple, Protocol

import msgspec

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from .value_copies import own_copy

Change = tuple[bytes, bytes | None, bytes | None]
"""A key of a task's state, as the prefix of its kind and the rest, and its new value; None deletes it. Without a key
all that the prefix has is deleted, which may be more than fits in memory; that comes before other changes under it."""

_MISSING: Any = object()
_TIME = Layout(">Q")
PREFIX_SIZE = _TIME.size + 1
"""Bytes that a time adds to a prefix."""

_BIAS = 2**63

LIGHT = 128
"""Bytes that a value in memory is taken to need at least, with its key; up to this size it is not weighed."""


class Size(NamedTuple):
    """How much there is in memory: entries, and the bytes of their keys and encoded values, LIGHT each at least."""

    entries: int
    bytes: int


class Share(NamedTuple):
    """Parts of a size that are kept, from 0 to 1."""

    entries: float
    bytes: float


class Bytes(Protocol):
    """The bytes below: what the last commit left. Keys of one kind share a prefix; no prefix begins another."""

    def get(self, prefix: bytes, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys: (key without the prefix, value)."""
        ...

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """The prefixes of PREFIX_SIZE bytes more than `start`, which they begin with, that hold entries."""
        ...


class Coding:
    """How values of one kind become bytes, and come back."""

    __slots__ = ("decode", "encode")

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self.encode = encode
        self.decode = decode


class Codec(Coding):
    """MessagePack of one type."""

    __slots__ = ()

    def __init__(self, kind: Any) -> None:
        super().__init__(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(kind).decode)


class _Fresh(dict[bytes, Any]):
    """Values changed since the last commit; a value that is not among them is fetched on first use."""

    __slots__ = ("layer",)

    def __init__(self, layer: "Layer") -> None:
        self.layer = layer

    def __missing__(self, key: bytes) -> Any:
        layer = self.layer
        return layer.absent() if layer.complete and not layer.clean else layer.fetch(key)


class Layer:
    """Values under one prefix: `fresh` ones, `clean` ones that the bytes below hold too, and the rest below.

    `fresh[key]` gives a value, or what `absent()` makes where there is none; `fresh[key] = value` changes it.
    `clean` values are in the order of their last use, so that the oldest are evicted first.
    `complete` says that every value is in memory, so that a miss needs no read.
    """

    __slots__ = ("_below", "_codec", "_gone", "_heavy", "_weight", "absent", "clean", "complete", "fresh", "prefix")

    def __init__(self, prefix: bytes, below: Bytes, codec: Coding, absent: Callable[[], Any], complete: bool) -> None:
        self.prefix = prefix
        self.clean: dict[bytes, Any] = {}
        self.complete = complete
        self.fresh: dict[bytes, Any] = _Fresh(self)
        self._below = below
        self._codec = codec
        self.absent = absent
        self._gone: set[bytes] = set()
        self._heavy: dict[bytes, int] = {}  # the sizes of encoded values above LIGHT
        self._weight = 0  # their sum

    def fetch(self, key: bytes) -> Any:
        """A value that is not among the fresh ones."""
        clean = self.clean
        value = clean.pop(key, _MISSING)
        if value is not _MISSING:
            clean[key] = value  # used last
            return value
        if self.complete or key in self._gone:
            return self.absent()
        data = self._below.get(self.prefix, key)
        if data is None:
            return self.absent()
        value = clean[key] = self._decoded(data)
        self._weigh(key, len(key) + len(data))
        return value

    def _weigh(self, key: bytes, size: int) -> None:
        """Take down the size of a key and its encoded value."""
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
        self.fresh.pop(key, None)
        written = self.clean.pop(key, _MISSING) is not _MISSING
        self._weigh(key, 0)
        if written or not self.complete:
            self._gone.add(key)

    def undo(self, key: bytes, copied: Callable[[Any], Any] = own_copy) -> Callable[[], None]:
        """What takes back all changes to a value from now on, changes of the value itself included, as far as it is
        `copied`."""
        fresh, clean, gone = self.fresh, self.clean, self._gone
        kept = [(place, copied(place[key])) for place in (fresh, clean) if key in place]
        was_gone = key in gone

        def take_back() -> None:
            fresh.pop(key, None)
            clean.pop(key, None)  # where it was read from below, it may have been changed in place
            if not was_gone:
                gone.discard(key)
            for place, value in kept:
                place[key] = value
            if key not in clean:
                self._weigh(key, 0)

        return take_back

    def items(self) -> Iterator[tuple[bytes, Any]]:
        """All keys and values that there are now, in the order of the keys. Those below are read on the way: they may
        be more than fit in memory."""
        found = {**self.clean, **self.fresh}
        # Keys alone are sorted faster than pairs.
        held = [(key, found[key]) for key in sorted(found)]
        return iter(held) if self.complete else self._with_below(held)

    def _with_below(self, held: list[tuple[bytes, Any]]) -> Iterator[tuple[bytes, Any]]:
        """What is in memory, and between it what is below alone."""
        at, gone = 0, self._gone
        for key, data in self._below.scan(self.prefix):
            while at < len(held) and held[at][0] < key:
                yield held[at]
                at += 1
            # What is in memory is newer.
            if key not in gone and not (at < len(held) and held[at][0] == key):
                yield key, self._decoded(data)
        yield from held[at:]

    @property
    def changed(self) -> int:
        """How many values `changes` would hand over, about."""
        return len(self.fresh) + len(self._gone)

    def forgotten(self) -> list[Change]:
        """The changes that delete what the bytes below have."""
        if self.complete:
            return [(self.prefix, key, None) for key in {*self.clean, *self._gone}]
        return [(self.prefix, None, None)]

    def changes(self) -> Iterator[Change]:
        for key in self._gone:
            if key not in self.fresh:
                yield self.prefix, key, None
        encode, prefix, heavy, weigh = self._codec.encode, self.prefix, self._heavy, self._weigh
        for key, value in self.fresh.items():
            data = encode(value)
            size = len(key) + len(data)
            if size > LIGHT or heavy:
                weigh(key, size)
            yield prefix, key, data

    def settle(self) -> None:
        """Take what was changed as written."""
        self.clean.update(self.fresh)
        self.fresh.clear()
        self._gone.clear()

    @property
    def held(self) -> Size:
        """What the clean values take."""
        return Size(len(self.clean), len(self.clean) * LIGHT + self._weight)

    def evict(self, share: Share) -> None:
        """Keep this share of the clean values in memory: those that were used last."""
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


def evict(layers: Iterable[Layer], most: Size) -> None:
    """Keep no more than `most` clean values in memory. All layers give up the same share of theirs, the oldest."""
    layers = list(layers)
    held = [layer.held for layer in layers]
    entries, size = sum(one.entries for one in held), sum(one.bytes for one in held)
    share = Share(min(1.0, most.entries / max(1, entries)), min(1.0, most.bytes / max(1, size)))
    if share < (1.0, 1.0):
        for layer in layers:
            layer.evict(share)


class CountedReads:
    """The bytes below, and how much was read of them since it was last told to `begin`."""

    __slots__ = ("_below", "_bytes", "_entries")

    def __init__(self, below: Bytes) -> None:
        self._below = below
        self._entries = self._bytes = 0

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        data = self._below.get(prefix, key)
        if data is not None:
            self._entries += 1
            self._bytes += len(data)
        return data

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._below.scan(prefix)

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        return self._below.prefixes(start)

    @property
    def size(self) -> Size:
        """What was read, but for keys."""
        return Size(self._entries, self._bytes + self._entries * LIGHT)

    def begin(self) -> None:
        """Count from here on."""
        self._entries = self._bytes = 0


def unreadable(operator: str, error: Exception) -> SystemProblem:
    """The error of state that is of another type than its operator keeps."""
    wrong = f"the state of {operator!r} cannot be read: {error}"
    remedy = "run the pipeline that wrote it, or give the operator another id to start over"
    return SystemProblem(explain(wrong, "state of the type that the operator keeps", remedy, operator))


class KeyedState:
    """A value per key."""

    __slots__ = ("layer",)

    def __init__(self, name: str, below: Bytes, kind: Any, absent: Callable[[], Any], complete: bool) -> None:
        self.layer = Layer(self.prefix_of(name), below, Codec(kind), absent, complete)

    @staticmethod
    def prefix_of(name: str) -> bytes:
        """What the keys of an operator's state begin with below."""
        return name.encode() + b"\0k"

    def delete(self, key: bytes) -> None:
        self.layer.delete(key)

    @property
    def changed(self) -> int:
        return self.layer.changed

    def changes(self) -> Iterator[Change]:
        return self.layer.changes()

    def settle(self) -> None:
        self.layer.settle()

    def layers(self) -> Iterable[Layer]:
        return (self.layer,)


class TimedState:
    """A value per time and key. `on_new(time)` is called when a time is first used. `mark`, a byte, tells one such
    state of an operator from another."""

    __slots__ = ("_absent", "_below", "_codec", "_dropped", "_on_new", "_order", "_prefix", "at")

    def __init__(
        self,
        name: str,
        below: Bytes,
        kind: Any,
        absent: Callable[[], Any],
        complete: bool,
        on_new: Callable[[int], None],
        *,
        mark: bytes = b"t",
    ) -> None:
        self._prefix = name.encode() + b"\0" + mark
        self._below = below
        self._codec = Codec(kind)
        self._absent = absent
        self._on_new = on_new
        self._dropped: list[Change] = []
        self.at: dict[int, Layer] = {}
        self._order: list[int] = []  # a heap of its times; those that are no longer in use leave it late
        for time in [] if complete else self._stored_times():
            self.at[time] = Layer(self._name(time), below, self._codec, absent, complete=False)
            heappush(self._order, time)
            on_new(time)

    def _name(self, time: int) -> bytes:
        return self._prefix + _TIME.pack(time + _BIAS) + b"\0"

    def _stored_times(self) -> Iterator[int]:
        for prefix in self._below.prefixes(self._prefix):
            yield _TIME.unpack(prefix[len(self._prefix) : -1])[0] - _BIAS

    def fresh(self, time: int) -> dict[bytes, Any]:
        """The values of a time, to read and to change: see `Layer`."""
        layer = self.at.get(time)
        if layer is None:
            # A time used anew after `drop` must not find the dropped values below, so it is complete from the start.
            layer = self.at[time] = Layer(self._name(time), self._below, self._codec, self._absent, complete=True)
            heappush(self._order, time)
            self._on_new(time)
        return layer.fresh

    def undo(self, time: int, key: bytes) -> Callable[[], None]:
        """What takes back all changes to a value from now on; a time that is not in use is then unused again."""
        layer = self.at.get(time)
        if layer is not None:
            return layer.undo(key)

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
        layer = self.at.pop(time)
        self._dropped += layer.forgotten()
        # It and its fresh values refer to each other. Parted they go at once, with all that the layer holds, and not
        # with the garbage collector's last round, which is seldom.
        layer.fresh = {}

    @property
    def changed(self) -> int:
        """How many values `changes` would hand over, about."""
        return sum(layer.changed for layer in self.at.values()) + len(self._dropped)

    def changes(self) -> Iterator[Change]:
        yield from self._dropped
        for layer in self.at.values():
            yield from layer.changes()

    def settle(self) -> None:
        self._dropped.clear()
        for layer in self.at.values():
            layer.settle()

    def layers(self) -> Iterable[Layer]:
        return self.at.values()

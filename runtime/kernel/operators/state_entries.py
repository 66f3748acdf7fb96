"""Entries of keyed state: how values are encoded, when entries expire, and how changes are taken back."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from struct import Struct as Layout
from typing import Any

import msgspec

from ....dsl.serde import Serde, type_name
from ..state_backend import Change, StateBackend
from ..state_cache import WriteBackCache
from ..state_codec import Codec, MsgpackCodec, unreadable
from ..time.bounds import START
from ..time.far_timers import FarTimers
from ..value_copies import of_unchanging

_TIME = Layout(">q")
_SIZE = Layout(">I")
_LEAST, _MOST = -(2**63), 2**64 - 1
"""The range of integers in MessagePack."""


class KeyScope:
    """The key of the current call, None between two calls, and the time of its reads and writes.

    `touched` are the states that the call uses. If changes may have to be taken back, `undo_log` collects functions
    that do so.
    """

    __slots__ = ("key", "time", "touched", "undo_log")

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.time = START
        self.touched: list[Any] = []
        self.undo_log: list[Callable[[], None]] | None = None

    def begin_undo_log(self) -> Callable[[], None]:
        """Begin an undo log; returns a function that takes back what it has by then."""
        undo_log = self.undo_log = list[Callable[[], None]]()

        def take_back() -> None:
            for restore in reversed(undo_log):
                restore()

        return take_back


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """How values of a state are stored: as they are, if they cannot be changed in place, otherwise as bytes.

    `keep` returns the stored form of a value, and raises for a value of another type. `give` returns the value of a
    stored form; it is None if both are the same.
    """

    codec: Codec
    keep: Callable[[Any], Any]
    give: Callable[[Any], Any] | None
    pieces: Codec
    """Encodes pieces of a list of stored values."""


def _same(data: bytes) -> bytes:
    return data


AS_BYTES = Codec(_same, _same)


def value_codec(type_: Any, operator: str, state: str) -> ValueCodec:
    """The codec for values of a type or Serde in a state of an operator."""
    if type_ in (int, str, float, bool, bytes):
        return ValueCodec(
            MsgpackCodec(type_),
            _KEEP.get(type_, _exactly)(type_, state),
            None,
            _pieces(type_, MsgpackCodec(type_).decode),
        )
    codec: Any = type_ if isinstance(type_, Serde) else MsgpackCodec(type_)
    encode, decode = codec.encode, codec.decode

    def keep(value: Any) -> bytes:
        data: bytes = encode(value)
        decode(data)  # a value that cannot be decoded would fail each later message of the key
        return data

    def give(data: bytes) -> Any:
        try:
            return decode(data)
        except Exception as error:
            raise unreadable(operator, error) from error

    return ValueCodec(AS_BYTES, keep, give, _pieces(bytes, MsgpackCodec(type_).encode if codec is not type_ else _same))


def _pieces(type_: type, turned: Callable[[Any], Any]) -> Codec:
    """The codec for pieces of a list whose items are stored as a type. Items that an earlier version stored in the
    other form, as bytes or as values, are `turned` into this form."""
    codec = MsgpackCodec(tuple[type_, ...])  # type: ignore[valid-type]

    def decode(data: bytes) -> Any:
        try:
            return codec.decode(data)
        except msgspec.ValidationError:
            items = msgspec.msgpack.decode(data)
        return tuple(
            turned(item) if (item.__class__ is bytes) != (type_ is bytes) else msgspec.convert(item, type_)
            for item in items
        )

    return Codec(codec.encode, decode)


def _exactly(type_: type, state: str, check: Callable[[Any], None] | None = None) -> Callable[[Any], Any]:
    def keep(value: Any) -> Any:
        if value.__class__ is not type_:
            raise _wrong(type_, state, value)
        if check is not None:
            check(value)
        return value

    return keep


def _check_whole(value: int) -> None:
    if not _LEAST <= value <= _MOST:
        raise ValueError(f"{value} does not fit 64 bits")


def _check_text(value: str) -> None:
    if not value.isascii():
        value.encode()


def _whole(type_: type, state: str) -> Callable[[Any], Any]:
    return _exactly(type_, state, _check_whole)


def _text(type_: type, state: str) -> Callable[[Any], Any]:
    return _exactly(type_, state, _check_text)


def _real(type_: type, state: str) -> Callable[[Any], Any]:
    def keep(value: Any) -> Any:
        if value.__class__ is type_:
            return value
        if value.__class__ is not int:
            raise _wrong(type_, state, value)
        return float(value)

    return keep


_KEEP: dict[type, Callable[[type, str], Callable[[Any], Any]]] = {int: _whole, str: _text, float: _real}


def _wrong(type_: type, state: str, value: Any) -> TypeError:
    return TypeError(f"state {state!r} holds {type_name(type_)}, not {type(value).__name__}: {value!r}")


def under(key: bytes, name: bytes) -> bytes:
    """The key of an entry, for a state with several entries for each of its keys."""
    return _SIZE.pack(len(key)) + key + name


def key_and_name(entry: bytes) -> tuple[bytes, bytes]:
    """The key and the name of an entry: the opposite of `under`."""
    end = _SIZE.size + _SIZE.unpack_from(entry)[0]
    return entry[_SIZE.size : end], entry[end:]


class Entries:
    """Entries that stay until they are deleted. Values are never changed in place."""

    def __init__(self, scope: KeyScope, cache: WriteBackCache) -> None:
        self._scope, self._cache, self._fresh = scope, cache, cache.fresh
        self.changes, self.mark_committed = cache.changes, cache.mark_committed
        self.get = self.stored = cache.fresh.__getitem__

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key. The value is stored at the next commit, and must not be changed after this call."""
        if self._scope.undo_log is not None:
            self._note(key)
        self._fresh[key] = value

    def delete(self, key: bytes) -> None:
        """Delete the value of a key, if there is one."""
        if self._scope.undo_log is not None:
            self._note(key)
        self._cache.delete(key)

    def keys(self) -> Iterator[bytes]:
        """The keys of all entries, in order."""
        return (key for key, _ in self._cache.items())

    def _note(self, key: bytes) -> None:
        """Add a function to the undo log that restores the current entry."""
        assert self._scope.undo_log is not None
        self._scope.undo_log.append(self._cache.undo(key, of_unchanging))

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return (self._cache,)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._cache.changed


class ExpiringEntries:
    """Entries that expire `ttl` ms after they were last written. State: (time of the last write, stored value), and a
    far timer for each entry, which deletes it."""

    def __init__(self, permanent: Entries, scope: KeyScope, ttl: int, far_timers: FarTimers) -> None:
        self._entries, self._scope, self._ttl = permanent, scope, ttl
        self._far_timers = far_timers

    def get(self, key: bytes) -> Any:
        """The value of a key; None if there is none, or if it has expired."""
        entry = self._entries.get(key)
        return None if entry is None or entry[0] + self._ttl <= self._scope.time else entry[1]

    def stored(self, key: bytes) -> Any:
        """The value of a key that has not been deleted yet, expired or not."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key, which expires `ttl` ms from now."""
        entry, now = self._entries.get(key), self._scope.time
        self._entries.put(key, (now, value))
        if entry is None or now < entry[0]:  # otherwise there is a timer that is not later
            self._far_timers.set(now + self._ttl, now, key)

    def delete(self, key: bytes) -> None:
        """Delete the value of a key, if there is one."""
        # A timer that was set stays: it fires without effect.
        self._entries.delete(key)

    def expired(self, watermark: int) -> Iterator[bytes]:
        """The entries that have expired by then. The caller deletes them."""
        for time, keys in self._far_timers.fire(watermark):
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    continue
                end = entry[0] + self._ttl
                if end > time:
                    self._far_timers.set(end, time, key)
                else:
                    yield key

    def next_due(self) -> int:
        """The least watermark at which an entry may expire."""
        return self._far_timers.next_due()

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._entries.changed + self._far_timers.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._entries.changes(), self._far_timers.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._entries.mark_committed()
        self._far_timers.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._entries.caches(), self._far_timers.caches())


@dataclass(frozen=True, slots=True)
class StateNamespace:
    """The part of the backend that holds an operator's states. For `schedule` and `watermark` see `WindowContext`."""

    operator: str
    backend: StateBackend
    empty: bool
    schedule: Callable[[int], None]
    watermark: int
    scope: KeyScope

    def permanent(self, mark: str, state: str, codec: Codec) -> Entries:
        """Entries under a prefix of their own. `mark`, a letter, distinguishes the kinds of entries of one state."""
        prefix = f"{self.operator}\0{mark}{state}\0".encode()
        return Entries(self.scope, WriteBackCache(prefix, self.backend, codec, _nothing, self.empty))

    def entries(self, mark: str, state: str, codec: Codec, ttl: int | None) -> Entries | ExpiringEntries:
        """Entries that expire after `ttl` ms, if it is not None."""
        return self.permanent(mark, state, codec) if ttl is None else self.expiring(mark, state, codec, ttl)

    def expiring(self, mark: str, state: str, codec: Codec, ttl: int) -> ExpiringEntries:
        """Entries that expire after `ttl` ms."""
        return ExpiringEntries(self.permanent(mark, state, _dated(codec)), self.scope, ttl, self.far_timers("x", state))

    def far_timers(self, mark: str, state: str = "") -> FarTimers:
        """Far timers under prefixes of their own."""
        return FarTimers(f"{self.operator}\0{mark}{state}", self.backend, self.empty, self.schedule, self.watermark)

    def for_processing_time(self, now: int) -> "StateNamespace":
        """This namespace, for timers in processing time: the clock fires them, so no watermark is scheduled."""
        return replace(self, schedule=lambda _: None, watermark=now)


def _dated(codec: Codec) -> Codec:
    """A codec for pairs of a time and a value of another codec."""
    encode, decode = codec.encode, codec.decode
    return Codec(
        lambda entry: _TIME.pack(entry[0]) + encode(entry[1]),
        lambda data: (_TIME.unpack_from(data)[0], decode(data[_TIME.size :])),
        lead=_TIME.size,
    )


def _nothing() -> None:
    return None

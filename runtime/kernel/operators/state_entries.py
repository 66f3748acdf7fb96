"""Entries of a processor's states: in which form values are kept, for how long, and how changes are taken back."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from struct import Struct as Layout
from typing import Any, Protocol

import msgspec

from ....dsl.serde import Serde, type_name
from ..state_cache import Bytes, Change, Codec, Coding, Layer, unreadable
from ..time.bounds import START
from ..time.far_timers import Alarms

_TIME = Layout(">q")
_SIZE = Layout(">I")
_LEAST, _MOST = -(2**63), 2**64 - 1
"""The whole numbers that MessagePack has."""


class Turn:
    """What is at hand: a key, None between two calls, and the time of reads and writes.

    `touched` are the states in use, `journal` takes what takes changes back, where that may be needed.
    """

    __slots__ = ("journal", "key", "time", "touched")

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.time = START
        self.touched: list[Any] = []
        self.journal: list[Callable[[], None]] | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How values of a state are kept: as they are, if nobody can change them, else as bytes.

    `keep` makes of a value what is kept, and refuses one of another type; `give` makes a value of it again, None if
    that is the same.
    """

    coding: Coding
    keep: Callable[[Any], Any]
    give: Callable[[Any], Any] | None
    pieces: Coding
    """How pieces of a list of what is kept become bytes."""


def _same(data: bytes) -> bytes:
    return data


AS_BYTES = Coding(_same, _same)


def form(kind: Any, operator: str, state: str) -> Form:
    """The form for values of a type or Serde, which a state of an operator keeps."""
    if kind in (int, str, float, bool, bytes):
        return Form(Codec(kind), _KEEP.get(kind, _exactly)(kind, state), None, _pieces(kind, Codec(kind).decode))
    coding: Any = kind if isinstance(kind, Serde) else Codec(kind)
    encode, decode = coding.encode, coding.decode

    def keep(value: Any) -> bytes:
        data: bytes = encode(value)
        decode(data)  # what could not be read again would fail each later message of the key
        return data

    def give(data: bytes) -> Any:
        try:
            return decode(data)
        except Exception as error:
            raise unreadable(operator, error) from error

    return Form(AS_BYTES, keep, give, _pieces(bytes, Codec(kind).encode if coding is not kind else _same))


def _pieces(kind: type, turned: Callable[[Any], Any]) -> Coding:
    """Pieces of a list whose items are kept as a type. Items that an earlier type has kept in the other form, encoded
    or as they are, are `turned` into this one."""
    codec = Codec(tuple[kind, ...])  # type: ignore[valid-type]

    def decode(data: bytes) -> Any:
        try:
            return codec.decode(data)
        except msgspec.ValidationError:
            items = msgspec.msgpack.decode(data)
        return tuple(
            turned(item) if (item.__class__ is bytes) != (kind is bytes) else msgspec.convert(item, kind)
            for item in items
        )

    return Coding(codec.encode, decode)


def _exactly(kind: type, state: str, check: Callable[[Any], None] | None = None) -> Callable[[Any], Any]:
    def keep(value: Any) -> Any:
        if value.__class__ is not kind:
            raise _wrong(kind, state, value)
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


def _whole(kind: type, state: str) -> Callable[[Any], Any]:
    return _exactly(kind, state, _check_whole)


def _text(kind: type, state: str) -> Callable[[Any], Any]:
    return _exactly(kind, state, _check_text)


def _real(kind: type, state: str) -> Callable[[Any], Any]:
    def keep(value: Any) -> Any:
        if value.__class__ is kind:
            return value
        if value.__class__ is not int:
            raise _wrong(kind, state, value)
        return float(value)

    return keep


_KEEP: dict[type, Callable[[type, str], Callable[[Any], Any]]] = {int: _whole, str: _text, float: _real}


def _wrong(kind: type, state: str, value: Any) -> TypeError:
    return TypeError(f"state {state!r} holds {type_name(kind)}, not {type(value).__name__}: {value!r}")


def under(key: bytes, name: bytes) -> bytes:
    """The name of an entry of which a key has several."""
    return _SIZE.pack(len(key)) + key + name


def parts(entry: bytes) -> tuple[bytes, bytes]:
    """The key and the name that `under` was given."""
    end = _SIZE.size + _SIZE.unpack_from(entry)[0]
    return entry[_SIZE.size : end], entry[end:]


class Entries(Protocol):
    """What is kept under one prefix. Values are never changed in place."""

    def get(self, key: bytes) -> Any:
        """What is kept, None if there is nothing or its time is over."""
        ...

    def stored(self, key: bytes) -> Any:
        """The same, whether or not its time is over."""
        ...

    def put(self, key: bytes, kept: Any) -> None: ...

    def delete(self, key: bytes) -> None: ...

    @property
    def changed(self) -> int: ...

    def changes(self) -> Iterator[Change]: ...

    def settle(self) -> None: ...

    def layers(self) -> Iterable[Layer]: ...


class Lasting:
    """Entries that stay until they are deleted."""

    def __init__(self, turn: Turn, layer: Layer) -> None:
        self._turn, self._layer, self._fresh = turn, layer, layer.fresh
        self.changes, self.settle = layer.changes, layer.settle
        self.get = self.stored = layer.fresh.__getitem__

    def put(self, key: bytes, kept: Any) -> None:
        if self._turn.journal is not None:
            self._note(key)
        self._fresh[key] = kept

    def delete(self, key: bytes) -> None:
        if self._turn.journal is not None:
            self._note(key)
        self._layer.delete(key)

    def _note(self, key: bytes) -> None:
        """An entry is about to change, which may have to be taken back."""
        assert self._turn.journal is not None
        self._turn.journal.append(self._layer.undo(key, _as_it_is))

    def layers(self) -> Iterable[Layer]:
        return (self._layer,)

    @property
    def changed(self) -> int:
        return self._layer.changed


class Ageing:
    """Entries that are over `ttl` ms after they were last written. State: (time of the last write, what is kept), and
    an alarm for each, which lets it go for good."""

    def __init__(self, lasting: Lasting, turn: Turn, ttl: int, alarms: Alarms) -> None:
        self._entries, self._turn, self._ttl = lasting, turn, ttl
        self._alarms = alarms

    def get(self, key: bytes) -> Any:
        entry = self._entries.get(key)
        return None if entry is None or entry[0] + self._ttl <= self._turn.time else entry[1]

    def stored(self, key: bytes) -> Any:
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def put(self, key: bytes, kept: Any) -> None:
        entry, now = self._entries.get(key), self._turn.time
        self._entries.put(key, (now, kept))
        if entry is None or now < entry[0]:  # else there is an alarm, not after the time that it is over
            self._alarms.set(now + self._ttl, now, key)

    def delete(self, key: bytes) -> None:
        # An alarm that was set stays: it rings for nothing.
        self._entries.delete(key)

    def over(self, watermark: int) -> Iterator[bytes]:
        """The entries whose time is over by then, which are to be deleted."""
        for time, keys in self._alarms.ring(watermark):
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    continue
                end = entry[0] + self._ttl
                if end > time:
                    self._alarms.set(end, time, key)
                else:
                    yield key

    def wake(self) -> int:
        """The watermark from which some may be over."""
        return self._alarms.wake()

    @property
    def changed(self) -> int:
        return self._entries.changed + self._alarms.changed

    def changes(self) -> Iterator[Change]:
        return chain(self._entries.changes(), self._alarms.changes())

    def settle(self) -> None:
        self._entries.settle()
        self._alarms.settle()

    def layers(self) -> Iterable[Layer]:
        return chain(self._entries.layers(), self._alarms.layers())


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the states of an operator lie: makes their entries. `rouse` and `watermark` are as in `windows.Context`."""

    operator: str
    below: Bytes
    empty: bool
    rouse: Callable[[int], None]
    watermark: int
    turn: Turn

    def lasting(self, mark: str, state: str, coding: Coding) -> Lasting:
        """Entries under a prefix of their own: a mark, a letter, tells one kind of a state's entries from others."""
        prefix = f"{self.operator}\0{mark}{state}\0".encode()
        return Lasting(self.turn, Layer(prefix, self.below, coding, _nothing, self.empty))

    def entries(self, mark: str, state: str, coding: Coding, ttl: int | None) -> Lasting | Ageing:
        """Entries that are over after `ttl` ms, if it is not None."""
        if ttl is None:
            return self.lasting(mark, state, coding)
        return Ageing(self.lasting(mark, state, _dated(coding)), self.turn, ttl, self.alarms("x", state))

    def alarms(self, mark: str, state: str = "") -> Alarms:
        """Alarms under prefixes of their own."""
        return Alarms(f"{self.operator}\0{mark}{state}", self.below, self.empty, self.rouse, self.watermark)

    def by_clock(self, now: int) -> "Shelf":
        """The same, for what the clock rouses: it comes by anyway."""
        return replace(self, rouse=lambda _: None, watermark=now)


def _dated(coding: Coding) -> Coding:
    """Pairs of a time and what another coding is for."""
    encode, decode = coding.encode, coding.decode
    return Coding(
        lambda entry: _TIME.pack(entry[0]) + encode(entry[1]),
        lambda data: (_TIME.unpack_from(data)[0], decode(data[_TIME.size :])),
    )


def _nothing() -> None:
    return None


def _as_it_is(value: Any) -> Any:
    return value

"""The states of a processor, bound to their entries: what user code reads and changes while it handles one key.

Changes are collected here, and written to the entries when the call has ended without an error."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from ....dsl.keyed_state import ListState, MapState, State, ValueState, used_outside
from ....dsl.serde import Serde, key_encoder, key_serde
from ..state_codec import MsgpackCodec
from .state_entries import (
    Entries,
    ExpiringEntries,
    KeyScope,
    StateNamespace,
    ValueCodec,
    key_and_name,
    under,
    value_codec,
)

MOST = 64
"""The most items in a piece of a list, and the average number of names in a piece of a map's index."""
HEAVY = 2 << 10
"""The most bytes in a piece of a list, unless it is a single item. A piece is one message of the changelog."""


class BoundState(Protocol):
    """A declared state, bound to its `entries`. `expiring` are the entries that have a time to live."""

    entries: list[Entries | ExpiringEntries]
    expiring: ExpiringEntries | None

    def flush(self) -> None:
        """Write the changes of the current key to the entries."""
        ...

    def close(self) -> None:
        """Forget the current key."""
        ...

    def drop(self, entry: bytes) -> None:
        """Delete an entry that has expired."""
        ...


def bound_state(state: State, namespace: StateNamespace) -> BoundState:
    """Bind a declared state to entries in a namespace."""
    codec = value_codec(state.type, namespace.operator, state.name)
    return _BOUND[type(state)](state, codec, namespace)


def _begin(state: BoundState, name: str, scope: KeyScope) -> bytes:
    """Register a state that is used for the first time in a call; returns the current key."""
    if scope.key is None:
        raise used_outside(name)
    scope.touched.append(state)
    return scope.key


class BoundValue:
    """A value. State: key -> the stored form of the value."""

    def __init__(self, state: ValueState[Any], codec: ValueCodec, namespace: StateNamespace) -> None:
        self._name, self._scope, self._keep, self._give = state.name, namespace.scope, codec.keep, codec.give
        self._default = None if state.default is None else codec.keep(state.default)
        self._entries = namespace.entries("s", state.name, codec.codec, state.ttl)
        self.entries: list[Entries | ExpiringEntries] = [self._entries]
        self.expiring = self._entries if isinstance(self._entries, ExpiringEntries) else None
        self._key: bytes | None = None
        self._now: Any = None
        self._changed = False

    @property
    def value(self) -> Any:
        """The value of the present key; the default if there is none."""
        if self._key is None:
            self._open()
        value = self._default if self._now is None else self._now
        return value if value is None or self._give is None else self._give(value)

    @value.setter
    def value(self, value: Any) -> None:
        if self._key is None:
            self._open()
        self._now = None if value is None else self._keep(value)
        self._changed = True

    def clear(self) -> None:
        """Delete the value of the present key."""
        self.value = None

    def _open(self) -> None:
        # Inlined `_begin`, since this runs for each message.
        scope = self._scope
        key = scope.key
        if key is None:
            raise used_outside(self._name)
        scope.touched.append(self)
        self._key, self._now = key, self._entries.get(key)

    def flush(self) -> None:
        """Write the value if the function has set it."""
        if self._changed and self._key is not None:
            if self._now is not None:
                self._entries.put(self._key, self._now)
            elif self._entries.stored(self._key) is not None:
                self._entries.delete(self._key)

    def close(self) -> None:
        """Leave the present key, without writing."""
        self._key = self._now = None
        self._changed = False

    def drop(self, entry: bytes) -> None:
        """Delete an entry that has expired."""
        self._entries.delete(entry)


class BoundList:
    """A list. State: key -> the numbers of its pieces and items; and key and number -> a piece.

    Appending rewrites the last piece, of at most MOST items or HEAVY bytes, and the two numbers.
    """

    def __init__(self, state: ListState[Any], codec: ValueCodec, namespace: StateNamespace) -> None:
        self._name, self._scope, self._keep, self._give = state.name, namespace.scope, codec.keep, codec.give
        self._weight: Callable[[Any], int] = len if codec.give is not None or state.type in (str, bytes) else _eight
        self._heads = namespace.entries("s", state.name, MsgpackCodec(tuple[int, int]), state.ttl)
        self._pieces = namespace.permanent("p", state.name, codec.pieces)
        self.entries: list[Entries | ExpiringEntries] = [self._heads, self._pieces]
        self.expiring = self._heads if isinstance(self._heads, ExpiringEntries) else None
        self._key: bytes | None = None
        self._added: list[Any] = []
        self._cleared = self._changed = False
        self._length = 0

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        self.extend((item,))

    def extend(self, items: Iterable[Any]) -> None:
        """Add items at the end: all of them, or none if one cannot be stored."""
        self._open()
        added = [self._keep(item) for item in items]  # all of them or none
        self._added += added
        self._changed = self._changed or bool(added)

    def assign(self, items: Iterable[Any]) -> None:
        """Replace all items by others."""
        self._open()
        self._added = [self._keep(item) for item in items]
        self._cleared = self._changed = True
        self._length = 0

    def clear(self) -> None:
        """Delete all items."""
        self.assign(())

    def __len__(self) -> int:
        self._open()
        return self._length + len(self._added)

    def __iter__(self) -> Iterator[Any]:
        key = self._open()
        pieces = 0 if self._cleared else self._heads.get(key)[0]
        items = [item for number in range(pieces) for item in self._pieces.get(_numbered(key, number))]
        items += self._added
        return iter(items if self._give is None else map(self._give, items))

    def _open(self) -> bytes:
        if self._key is None:
            self._key = _begin(self, self._name, self._scope)
            head = self._heads.get(self._key)
            # A list that has expired is empty, though it may still be stored.
            self._cleared = head is None
            self._length = 0 if head is None else head[1]
        return self._key

    def flush(self) -> None:
        """Write the items that the function has added, as pieces."""
        if not self._changed or self._key is None:
            return
        key = self._key
        pieces, _ = self._heads.stored(key) or (0, 0)
        if self._cleared and pieces:
            self.drop(key)
            pieces = 0
        if self._added or pieces:
            self._heads.put(key, (self._fill(key, pieces), self._length + len(self._added)))

    def _fill(self, key: bytes, pieces: int) -> int:
        """Write the added items behind the stored ones; returns the new number of pieces."""
        number = max(0, pieces - 1)
        last = list(self._pieces.get(_numbered(key, number))) if pieces else []
        weight = sum(map(self._weight, last))
        for item in self._added:
            weight += self._weight(item)
            if last and (len(last) >= MOST or weight > HEAVY):
                self._pieces.put(_numbered(key, number), tuple(last))
                last, number, weight = [], number + 1, self._weight(item)
            last.append(item)
        self._pieces.put(_numbered(key, number), tuple(last))
        return number + 1

    def close(self) -> None:
        """Leave the present key, without writing."""
        self._key = None
        self._added = []
        self._cleared = self._changed = False

    def drop(self, entry: bytes) -> None:
        """Delete a list that has expired, with all its pieces."""
        for number in range(self._heads.stored(entry)[0]):
            self._pieces.delete(_numbered(entry, number))
        self._heads.delete(entry)


class NameIndex:
    """Sets of names by key, in pieces by the hashes of the names. The number of pieces doubles when they are full on
    average. State: key -> the numbers of pieces and names; and key and number -> a piece, sorted.

    A change rewrites the pieces of its names; when the number of pieces doubles, it rewrites all.
    """

    def __init__(self, state: str, namespace: StateNamespace) -> None:
        self._heads = namespace.permanent("n", state, MsgpackCodec(tuple[int, int]))
        self._pieces = namespace.permanent("p", state, MsgpackCodec(tuple[bytes, ...]))
        self.entries: list[Entries | ExpiringEntries] = [self._heads, self._pieces]

    def all(self, key: bytes) -> set[bytes]:
        """All names under a key."""
        pieces, _ = self._heads.get(key) or (0, 0)
        return {name for number in range(pieces) for name in self._piece(key, number)}

    def _piece(self, key: bytes, number: int) -> tuple[bytes, ...]:
        return self._pieces.get(_numbered(key, number)) or ()

    def change(self, key: bytes, added: set[bytes], removed: set[bytes]) -> None:
        """Add names that are not in the set, and remove names that are."""
        pieces, count = self._heads.get(key) or (1, 0)
        count += len(added) - len(removed)
        if count > MOST * pieces:
            names = {*self.all(key), *added} - removed
            while count > MOST * pieces:
                pieces *= 2
            laid_out = _by_piece(names, pieces)
            self._write(key, {number: laid_out.get(number, set()) for number in range(pieces)})
        else:
            gone = _by_piece(removed, pieces)
            new = _by_piece(added, pieces)
            touched = {
                number: {*self._piece(key, number), *new.get(number, ())} - gone.get(number, set())
                for number in {*new, *gone}
            }
            self._write(key, touched)
        if count:
            self._heads.put(key, (pieces, count))
        else:
            self._heads.delete(key)

    def _write(self, key: bytes, pieces: dict[int, set[bytes]]) -> None:
        for number, names in pieces.items():
            if names:
                self._pieces.put(_numbered(key, number), tuple(sorted(names)))
            else:
                self._pieces.delete(_numbered(key, number))


def _by_piece(names: Iterable[bytes], pieces: int) -> dict[int, set[bytes]]:
    by_piece: dict[int, set[bytes]] = {}
    for name in names:
        by_piece.setdefault(zlib.crc32(name) % pieces, set()).add(name)
    return by_piece


class BoundMap(MutableMapping[Any, Any]):
    """A mapping. State: key and name -> the stored form of a value; and the names of each key."""

    def __init__(self, state: MapState[Any, Any], codec: ValueCodec, namespace: StateNamespace) -> None:
        self._name, self._scope, self._keep, self._give = state.name, namespace.scope, codec.keep, codec.give
        self._encode, self._decode = key_encoder(state.key), key_serde(state.key).decode
        self._in_order = not isinstance(state.key, Serde)
        self._entries: Entries | ExpiringEntries = namespace.entries("s", state.name, codec.codec, state.ttl)
        self._names = NameIndex(state.name, namespace)
        self.entries: list[Entries | ExpiringEntries] = [self._entries, *self._names.entries]
        self.expiring = self._entries if isinstance(self._entries, ExpiringEntries) else None
        self._key: bytes | None = None
        self._changes: dict[bytes, Any] = {}
        self._cleared = False

    def _named(self, name: Any) -> bytes:
        if name is None:
            raise TypeError(f"state {self._name!r}: None is no key")
        encoded = self._encode(name)
        assert encoded is not None
        return encoded

    def _current(self, name: bytes) -> Any:
        key = self._open()
        if name in self._changes:
            return self._changes[name]
        return None if self._cleared else self._entries.get(under(key, name))

    def __getitem__(self, name: Any) -> Any:
        stored = self._current(self._named(name))
        if stored is None:
            raise KeyError(name)
        return stored if self._give is None else self._give(stored)

    def __setitem__(self, name: Any, value: Any) -> None:
        self._open()
        if value is None:
            raise TypeError(f"state {self._name!r}: None is no value; delete the entry")
        self._changes[self._named(name)] = self._keep(value)

    def __delitem__(self, name: Any) -> None:
        encoded = self._named(name)
        if self._current(encoded) is None:
            raise KeyError(name)
        self._changes[encoded] = None

    def __iter__(self) -> Iterator[Any]:
        names = map(self._decode, sorted(self._present()))
        return iter(sorted(names) if self._in_order else list(names))

    def __len__(self) -> int:
        return len(self._present())

    def _present(self) -> list[bytes]:
        key = self._open()
        stored: Iterable[bytes] = () if self._cleared else self._names.all(key)
        if self.expiring is not None:
            stored = [name for name in stored if self._entries.get(under(key, name)) is not None]
        names = dict.fromkeys(stored, True) | {name: value is not None for name, value in self._changes.items()}
        return [name for name, there in names.items() if there]

    def clear(self) -> None:
        """Delete all entries of the present key."""
        self._open()
        self._cleared = True
        self._changes = {}

    def _open(self) -> bytes:
        if self._key is None:
            self._key = _begin(self, self._name, self._scope)
        return self._key

    def flush(self) -> None:
        """Write the entries that the function has changed, and their names."""
        if self._key is None or not (self._changes or self._cleared):
            return
        key, entries = self._key, self._entries
        added: set[bytes] = set()
        removed = self._names.all(key) - self._changes.keys() if self._cleared else set[bytes]()
        for name in removed:
            entries.delete(under(key, name))
        for name, value in self._changes.items():
            entry = under(key, name)
            stored = entries.stored(entry) is not None
            if value is not None:
                entries.put(entry, value)
                if not stored:
                    added.add(name)
            elif stored:
                entries.delete(entry)
                removed.add(name)
        if added or removed:
            self._names.change(key, added, removed)

    def close(self) -> None:
        """Leave the present key, without writing."""
        self._key = None
        self._changes = {}
        self._cleared = False

    def drop(self, entry: bytes) -> None:
        """Delete an entry that has expired, and its name."""
        key, name = key_and_name(entry)
        self._entries.delete(entry)
        self._names.change(key, set(), {name})


_BOUND: Mapping[type[State], Callable[[Any, ValueCodec, StateNamespace], BoundState]] = {
    ValueState: BoundValue,
    ListState: BoundList,
    MapState: BoundMap,
}


def _numbered(key: bytes, number: int) -> bytes:
    return under(key, number.to_bytes(4, "big"))


def _eight(_: Any) -> int:
    return 8

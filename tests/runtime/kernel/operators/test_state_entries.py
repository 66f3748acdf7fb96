"""Entries of keyed state: how values are stored, when entries expire, and how changes are taken back."""

from typing import Any

import msgspec
import pytest

from fluvial.dsl import Serde
from fluvial.runtime.kernel.chunked_values import MARK
from fluvial.runtime.kernel.operators.state_entries import (
    ExpiringEntries,
    KeyScope,
    StateNamespace,
    key_and_name,
    under,
    value_codec,
)
from fluvial.runtime.kernel.state_codec import MsgpackCodec
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.state import MemoryStore

TTL = 100_000
HEX = Serde("hex", int, lambda number: b"%x" % number, lambda data: int(data, 16))


def namespace(backend: MemoryStore | None = None) -> StateNamespace:
    return StateNamespace("p", backend or MemoryStore(), backend is None, lambda _: None, START, KeyScope())


def expiring(backend: MemoryStore | None = None) -> tuple[KeyScope, ExpiringEntries]:
    made = namespace(backend)
    return made.scope, made.expiring("s", "seen", MsgpackCodec(str), TTL)


@pytest.mark.parametrize(("type_", "value"), [(int, 2**64 - 1), (str, "ä"), (float, 1.5), (bool, True), (bytes, b"\0")])
def test_a_value_that_cannot_change_in_place_is_stored_as_it_is(type_: type, value: Any) -> None:
    codec = value_codec(type_, "p", "s")
    assert (codec.keep(value), codec.give) == (value, None)
    assert codec.codec.decode(codec.codec.encode(value)) == value


@pytest.mark.parametrize(("type_", "value"), [(list[int], [1]), (HEX, 255)])
def test_another_value_is_stored_as_bytes(type_: Any, value: Any) -> None:
    codec = value_codec(type_, "p", "s")
    stored = codec.keep(value)
    assert codec.give is not None
    assert (type(stored), codec.give(stored)) == (bytes, value)


def test_a_whole_number_is_stored_as_a_float_where_one_is_declared() -> None:
    assert type(value_codec(float, "p", "s").keep(1)) is float


@pytest.mark.parametrize(
    ("type_", "value", "error"),
    [
        (int, "1", TypeError),
        (int, True, TypeError),
        (int, 2**64, ValueError),
        (float, "1", TypeError),
        (str, "\ud800", UnicodeEncodeError),
        (list[int], ["a"], msgspec.ValidationError),
    ],
)
def test_a_value_that_cannot_be_read_again_is_not_stored(type_: Any, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        value_codec(type_, "p", "s").keep(value)


def test_pieces_in_the_form_of_an_earlier_version_are_read() -> None:
    pieces = value_codec(list[int], "p", "s").pieces
    assert pieces.decode(msgspec.msgpack.encode([[1], [2]])) == (b"\x91\x01", b"\x91\x02")
    assert value_codec(int, "p", "s").pieces.decode(msgspec.msgpack.encode([b"\x01", 2])) == (1, 2)


def test_a_key_and_a_name_are_one_entry_and_come_apart_again() -> None:
    assert key_and_name(under(b"key", b"name")) == (b"key", b"name")
    assert under(b"ab", b"c") != under(b"a", b"bc")


def test_changes_are_taken_back_in_order() -> None:
    made = namespace()
    entries = made.permanent("s", "n", MsgpackCodec(int))
    entries.put(b"a", 1)
    take_back = made.scope.begin_undo_log()
    entries.put(b"a", 2)
    entries.put(b"a", 3)
    entries.delete(b"a")
    entries.put(b"b", 4)
    take_back()
    assert (entries.get(b"a"), entries.get(b"b")) == (1, None)


def test_an_entry_expires_ttl_after_it_was_last_written() -> None:
    scope, entries = expiring()
    scope.time = 1_000
    entries.put(b"a", "x")
    scope.time = 1_000 + TTL - 1
    assert entries.get(b"a") == "x"
    scope.time += 1
    assert (entries.get(b"a"), entries.stored(b"a")) == (None, "x")


def test_what_has_expired_is_yielded_and_what_was_written_again_is_not() -> None:
    scope, entries = expiring()
    scope.time = 1_000
    for key in (b"a", b"b"):
        entries.put(key, "x")
    scope.time = 50_000
    entries.put(b"b", "y")
    assert list(entries.expired(1_000 + TTL - 1)) == []
    assert list(entries.expired(1_000 + TTL)) == [b"a"]
    assert list(entries.expired(50_000 + TTL)) == [b"b"]


def test_entries_go_on_from_what_was_committed() -> None:
    backend = MemoryStore()
    scope, entries = expiring()
    scope.time = 1_000
    entries.put(b"a", "x")
    assert entries.changed > 0
    backend.write(entries.changes())
    entries.mark_committed()
    assert (entries.changed, list(entries.changes())) == (0, [])
    scope, again = expiring(backend)
    scope.time = 2_000
    assert again.get(b"a") == "x"
    assert again.next_due() < END
    assert list(again.expired(1_000 + TTL)) == [b"a"]


def test_the_timer_of_an_entry_that_was_deleted_has_no_effect() -> None:
    scope, entries = expiring()
    scope.time = 1_000
    entries.put(b"a", "x")
    entries.delete(b"a")
    assert list(entries.expired(1_000 + TTL)) == []


def test_the_time_of_a_large_entry_stays_in_front() -> None:
    """Earlier versions read it from there: else they would take the entry for one that has expired."""
    backend = MemoryStore()
    scope, entries = expiring(backend)
    scope.time = 5
    entries.put(b"key", "ann" * 100_000)
    backend.write([*entries.changes()])
    (time,) = {entry[:9] for _, entry in backend.scan(b"p\0sseen\0")}
    assert time == (5).to_bytes(8, "big") + MARK[:1]
    assert expiring(backend)[1].get(b"key") == "ann" * 100_000

"""The key that an entry of state is of."""

import pytest

from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.kernel.chunked_values import ChunkedValues
from fluvial.runtime.kernel.operators.state_entries import under
from fluvial.runtime.kernel.state_keys import is_of_all_keys, key_of_entry, key_of_record
from fluvial.runtime.state import MemoryStore

WINDOW, SEEN = StateSchema(kind="window"), StateSchema(kind="deduplicate")
PROCESS = StateSchema(kind="process", facts={"state one": "value", "state names": "map by str, with ttl"})


@pytest.mark.parametrize(
    ("schema", "rest", "entry"),
    [
        (WINDOW, b"k", b"key"),
        (WINDOW, b"t" + bytes(8), b"key"),
        (WINDOW, b"r" + bytes(8), bytes(8) + b"key"),
        (StateSchema(kind="join"), b"r" + bytes(8), b"key"),
        (SEEN, b"p\0", under(b"key", b"identity")),
        (PROCESS, b"sone\0", b"key"),
        (PROCESS, b"snames\0", under(b"key", b"name")),
        (PROCESS, b"xnames\0" + b"1" + bytes(9), under(b"key", b"name")),
        (PROCESS, b"nnames\0", b"key"),
        (PROCESS, b"n\0", under(b"key", b"timer")),
        (PROCESS, b"pnames\0", under(b"key", b"0000")),
        (PROCESS, b"w\0", under(b"key", b"timer")),
        (PROCESS, b"sof a later version\0", None),
    ],
)
def test_an_entry_tells_the_key_that_it_is_of(schema: StateSchema, rest: bytes, entry: bytes | None) -> None:
    assert key_of_entry(schema, rest, entry or b"key") == (None if entry is None else b"key")


def test_a_chunk_of_a_large_value_tells_the_key_too() -> None:
    chunks = ChunkedValues(b"w\0k", MemoryStore(), unused=True)
    for prefix, entry, _ in chunks.changes(b"key", bytes(100_000)):
        assert key_of_entry(WINDOW, prefix.partition(b"\0")[2], entry or b"") == b"key"


TIME = bytes(8) + b"\0"


@pytest.mark.parametrize(
    ("schema", "rest", "entry"),
    [
        (WINDOW, b"k", b"key"),
        (WINDOW, b"t" + TIME, b"key"),
        (WINDOW, b"f" + TIME, b"key"),
        (WINDOW, b"r" + TIME, bytes(8) + b"key"),
        (StateSchema(kind="join"), b"r" + TIME, b"key"),
        (SEEN, b"p\0", under(b"key", b"identity")),
        (SEEN, b"x\0" + b"1" + TIME, under(b"key", b"identity")),
        (PROCESS, b"sone\0", b"key"),
        (PROCESS, b"snames\0", under(b"key", b"name")),
        (PROCESS, b"xnames\0" + b"1" + TIME, under(b"key", b"name")),
        (PROCESS, b"a\0" + b"2" + TIME, under(b"key", b"timer")),
        (PROCESS, b"nnames\0", b"key"),
        (PROCESS, b"n\0", under(b"key", b"timer")),
        (PROCESS, b"pnames\0", under(b"key", b"0000")),
        (PROCESS, b"w\0", under(b"key", b"timer")),
    ],
)
def test_so_does_a_record_of_a_changelog(schema: StateSchema, rest: bytes, entry: bytes) -> None:
    assert key_of_record(schema, rest + entry) == b"key"


@pytest.mark.parametrize("data", [b"", b"t", b"t123"])
def test_a_record_of_another_form_tells_none(data: bytes) -> None:
    assert key_of_record(WINDOW, data) is None


def test_a_record_of_a_chunk_tells_the_key_too() -> None:
    chunks = ChunkedValues(b"w\0k", MemoryStore(), unused=True)
    for prefix, entry, _ in chunks.changes(b"key", bytes(100_000)):
        assert key_of_record(WINDOW, prefix.partition(b"\0")[2] + (entry or b"")) == b"key"


def test_the_last_end_of_a_processor_is_of_all_keys() -> None:
    assert is_of_all_keys(PROCESS, b"e\0")
    assert not is_of_all_keys(PROCESS, b"sone\0")
    assert not is_of_all_keys(WINDOW, b"e" + TIME)

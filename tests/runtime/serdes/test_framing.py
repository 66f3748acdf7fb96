"""How messages name their schemas, as all clients of a registry do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.serdes.framing import head, path_bytes, split, split_path


def test_a_message_begins_with_a_zero_and_the_id() -> None:
    assert head(0x01020304) == b"\x00\x01\x02\x03\x04"


@given(st.integers(0, 2**31 - 1), st.binary())
def test_a_head_comes_off_again(id: int, rest: bytes) -> None:
    assert split(head(id) + rest) == (id, rest)


def test_json_names_no_schema() -> None:
    with pytest.raises(ValueError, match="begins with 7b 22 61 22 3a, which names no schema"):
        split(b'{"a":1}')


def test_an_id_that_no_registry_gives_names_no_schema() -> None:
    with pytest.raises(ValueError, match="names no schema"):
        split(b"\x00\xff\xff\xff\xff")


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x00"])
def test_too_few_bytes_name_no_schema(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"{len(data)} bytes name no schema"):
        split(data)


def test_the_first_message_of_a_file_takes_one_byte() -> None:
    assert path_bytes((0,)) == b"\x00"
    assert split_path(b"\x02\x00rest") == ((0,), b"rest")  # as some write it


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5), st.binary())
def test_a_path_comes_off_again(path: list[int], rest: bytes) -> None:
    assert split_path(path_bytes(tuple(path)) + rest) == (tuple(path), rest)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x01", b"\x04\x00", b"\xff" * 11])
def test_what_is_no_path(data: bytes) -> None:
    with pytest.raises(ValueError, match="are no path to a message"):
        split_path(data)

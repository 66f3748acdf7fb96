"""Values of every kind are shown as JSON."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Serde, msgpack
from fluvial.dsl.annotations import UNKNOWN
from fluvial.dsl.serde import value_serde
from fluvial.runtime.files import json_of_bytes, json_of_type, shown
from fluvial.runtime.serdes import protobuf
from generators.shop import MESSAGES

HEX = Serde("hex", int, lambda number: b"%x" % number, lambda data: int(data, 16))


@pytest.mark.parametrize(
    ("kind", "value", "line"),
    [
        (dict[str, int], b'{"a":1}', b'{"a":1}'),
        (UNKNOWN, b"[1]", b"[1]"),
        (str, b'say "x"\n', b'"say \\"x\\"\\n"'),
        (str, b"\xff", b'"\\\\xff"'),
        (bytes, b"\x00\x01", b'"AAE="'),
        (HEX, b"ff", b"255"),
        (str, None, b"null"),
    ],
)
def test_a_value_by_its_type(kind: object, value: bytes | None, line: bytes) -> None:
    assert json_of_type(kind)(value) == line


def test_a_message_of_protobuf_is_shown_as_its_fields() -> None:
    order = MESSAGES["shop.Order"](id="a", price={"cents": 5})
    serde = protobuf(MESSAGES["shop.Order"])
    assert json_of_type(serde)(serde.encode(order)) == b'{"id":"a","price":{"cents":"5"}}'


def test_what_json_cannot_hold_is_not_shown() -> None:
    numbers = Serde("complex", complex, lambda number: str(number).encode(), lambda data: complex(data.decode()))
    with pytest.raises(TypeError, match="complex"):
        json_of_type(numbers)(b"1j")


@pytest.mark.parametrize(("kind", "line"), [(str, b"a\x00"), (bytes, b"a\x00")])
def test_raw_values_are_as_they_are(kind: object, line: bytes) -> None:
    assert json_of_type(kind, raw=True)(line) == line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b'{"a": 1}', b'{"a": 1}'),
        (b'{\n"a": 1}', b'{"a":1}'),
        (b"hello\tworld", b'"hello\\tworld"'),
        (b"\x00\x01", b'{"base64":"AAE="}'),
        (b"\xff", b'{"base64":"/w=="}'),
        (None, b"null"),
    ],
)
def test_a_value_of_no_known_type(value: bytes | None, line: bytes) -> None:
    assert json_of_bytes("auto")(value) == line


def test_text_and_base64() -> None:
    assert (json_of_bytes("text")(b"1"), json_of_bytes("base64")(b"1")) == (b'"1"', b'"MQ=="')


def test_what_is_no_json() -> None:
    with pytest.raises(msgspec.DecodeError):
        json_of_bytes("json")(b"hello")


@given(st.binary())
def test_any_bytes_are_shown_on_one_line_of_json(data: bytes) -> None:
    line = json_of_bytes("auto")(data)
    assert b"\n" not in line
    msgspec.json.decode(line)
    msgspec.json.encode(shown(data))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_are_read_back(text: str) -> None:
    assert msgspec.json.decode(json_of_type(str)(value_serde(str).encode(text))) == text


def test_numbers_that_json_does_not_have_are_shown_in_words() -> None:
    serde = msgpack(dict[str, list[float | None]])
    assert json_of_type(serde)(serde.encode({"a": [math.nan, None, -math.inf]})) == b'{"a":["NaN",null,"-Infinity"]}'


def test_what_is_not_there_is_shown_as_null() -> None:
    assert shown(None) is None

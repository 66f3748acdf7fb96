"""Serdes that the language brings along."""

import math
import pickle
import struct
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import assert_explains, error_of
from fluvial.dsl import FLOAT64, INT64, Pipeline, PipelineError, Serde, msgpack
from fluvial.dsl.finite import spelled
from fluvial.dsl.serde import WrongKey, encode_key, key_serde, source_key_serde, untyped_serde, value_serde


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float
    raw: bytes = b""


@dataclass(frozen=True)
class OlderReading:
    sensor: str


anything: Any = msgpack


@given(st.builds(Reading, st.text(), st.floats(allow_nan=False), st.binary()))
def test_message_pack_gives_back_what_it_was_given(reading: Reading) -> None:
    serde = msgpack(Reading)
    assert serde.decode(serde.encode(reading)) == reading


def test_message_pack_leaves_out_what_a_type_does_not_know() -> None:
    data = msgpack(Reading).encode(Reading("attic", 21.5))
    assert msgpack(OlderReading).decode(data) == OlderReading("attic")


def test_message_pack_names_its_type() -> None:
    assert msgpack(Reading).name == "msgpack:Reading"


def test_a_type_that_cannot_be_decoded_is_refused_where_it_is_written() -> None:
    place: Any = lambda: anything(int | list[int] | tuple[int])  # noqa: E731
    raised = error_of(place, PipelineError)
    assert_explains(raised, "values of it cannot be decoded", place, "a dataclass, Struct")


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_those_of_keys_and_of_java(number: int) -> None:
    assert INT64.encode(number) == struct.pack(">q", number) == encode_key(number)
    assert INT64.decode(INT64.encode(number)) == number


@given(st.floats(allow_nan=False))
def test_numbers_are_those_of_java(number: float) -> None:
    assert FLOAT64.encode(number) == struct.pack(">d", number)
    assert FLOAT64.decode(FLOAT64.encode(number)) == number


@pytest.mark.parametrize("serde", [INT64, FLOAT64])
@pytest.mark.parametrize("size", [0, 4, 9])
def test_bytes_that_are_not_eight_are_no_number(serde: Serde[Any], size: int) -> None:
    with pytest.raises(ValueError, match=f"expected 8 bytes, got {size}"):
        serde.decode(bytes(size))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_whole_number_that_does_not_fit_is_refused(number: int) -> None:
    with pytest.raises(OverflowError):
        INT64.encode(number)


@pytest.mark.parametrize("serde", [INT64, FLOAT64])
def test_numbers_travel_to_other_processes(serde: Serde[Any]) -> None:
    assert pickle.loads(pickle.dumps(serde)) == serde


def test_numbers_can_be_keys() -> None:
    stream = Pipeline("p").stream("counts", value=INT64, key=INT64)
    assert repr(stream) == "KeyedStream(stream counts)"


def test_what_checks_is_a_function() -> None:
    made: Any = Serde
    raised = error_of(lambda: made("x", int, bytes, int, 3), PipelineError)
    assert_explains(raised, "Serde 'x': check got 3", None, "a function", "not its result")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.sampled_from(["null"]),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=8,
)


def holds_no_number(value: Any) -> bool:
    """Whether JSON cannot hold a value: by a plain walk."""
    if isinstance(value, dict):
        return any(map(holds_no_number, value.values()))
    if isinstance(value, list):
        return any(map(holds_no_number, value))
    return isinstance(value, float) and not math.isfinite(value)


@given(VALUES)
def test_json_refuses_numbers_that_it_does_not_have_wherever_they_are(value: Any) -> None:
    serde = untyped_serde()
    if holds_no_number(value):
        with pytest.raises(ValueError, match=r"JSON has no -?(nan|inf)"):
            serde.encode(value)
        assert not holds_no_number(spelled(value))
    else:
        assert serde.decode(serde.encode(value)) == value == spelled(value)


@dataclass
class Node:
    name: str
    next: "Node | None" = None


@dataclass
class Weighed:
    name: str
    weight: float | None = None
    next: "Weighed | None" = None


@dataclass
class Order:
    name: str
    amount: int


NOT_OF_THEIR_TYPE: list[tuple[Any, Any]] = [
    (int, math.nan),
    (int | None, -math.inf),
    (list[int], [1, math.nan]),
    (dict[str, int], {"a": math.inf}),
    (tuple[int, ...], (math.nan,)),
    (Order, Order("tea", math.nan)),  # type: ignore[arg-type]
    (Node, Node("null", Node("a", math.nan))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("kind", "value"), NOT_OF_THEIR_TYPE, ids=repr)
def test_json_refuses_them_in_values_that_are_not_of_their_type(kind: Any, value: Any) -> None:
    """What a library computes is not what a function declares: a whole number that is missing is NaN in pandas."""
    with pytest.raises(ValueError, match=r"JSON has no -?(nan|inf)"):
        value_serde(kind).encode(value)


@pytest.mark.parametrize("value", [Order("null", 3), Node("null", Node("null")), None])
def test_json_takes_null_where_it_is_meant(value: Any) -> None:
    serde = value_serde(type(value))
    assert serde.decode(serde.encode(value)) == value


def test_the_error_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"JSON has no inf, which is the value at \.next\.weight"):
        value_serde(Weighed).encode(Weighed("a", 1.5, Weighed("b", math.inf)))
    with pytest.raises(ValueError, match=r"^JSON has no nan$"):
        value_serde(float).encode(math.nan)


def test_message_pack_and_eight_bytes_carry_them() -> None:
    assert msgpack(list[float]).decode(msgpack(list[float]).encode([math.inf, -math.inf])) == [math.inf, -math.inf]
    assert math.isnan(FLOAT64.decode(FLOAT64.encode(math.nan)))


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.5])
def test_a_key_with_a_float_in_it_is_refused(number: float) -> None:
    wrong: Any = ("a", (1, number))
    for encode in (encode_key, key_serde(tuple[str, int]).encode):
        with pytest.raises(TypeError, match="without floats such as"):
            encode(wrong)
    odd = (203, -53, "\u02cb", b"\xcb\x7f\xf8")
    assert encode_key(odd) == key_serde(tuple[int, int, str, bytes]).encode(odd)


@given(st.integers(-(2**63), 2_314_885_530_818_453_535))
def test_numbers_below_the_least_text_are_keys_of_streams(number: int) -> None:
    assert source_key_serde(int).decode(encode_key(number) or b"") == number


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=8))
def test_eight_characters_are_no_int(text: str) -> None:
    with pytest.raises(WrongKey, match="declare key=str for text, or key=INT64"):
        source_key_serde(int).decode(text.encode())
    assert source_key_serde(INT64).decode(text.encode()) == int.from_bytes(text.encode(), "big")


@given(st.binary().filter(lambda data: len(data) != 8))
def test_other_than_eight_bytes_are_no_int(data: bytes) -> None:
    with pytest.raises(WrongKey, match=f"of length {len(data)}, not an int in eight bytes"):
        source_key_serde(int).decode(data)


@pytest.mark.parametrize("kind", [str, bytes, tuple[str, int], INT64])
def test_other_keys_of_streams_are_as_all_keys(kind: Any) -> None:
    assert source_key_serde(kind).name == key_serde(kind).name


@pytest.mark.parametrize("value", [[[1.5], {"a": 2.5}, math.nan], [{"a": [1.5], "b": {}}, 2.5, math.nan]])
def test_the_place_is_that_behind_numbers_that_json_has(value: Any) -> None:
    with pytest.raises(ValueError, match=r"which is the value at \[2\]$"):
        untyped_serde().encode(value)


def test_json_takes_null_beside_a_number_that_message_pack_does_not_hold() -> None:
    value = {"rows": 2**80, "next": None}
    assert untyped_serde().decode(untyped_serde().encode(value)) == value


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1])
def test_a_key_of_more_than_64_bits_is_refused(key: int) -> None:
    with pytest.raises(ValueError, match=f"key {key} does not fit 64 bits"):
        encode_key(key)


@pytest.mark.parametrize("key", [1.5, [1], {"a": 1}])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match=f"tuple of them, not {type(key).__name__}"):
        encode_key(key)


def test_no_key_has_no_bytes() -> None:
    assert encode_key(None) is None


def test_none_is_no_type_of_values() -> None:
    place: Any = lambda: Pipeline("p").stream("in", value=None)  # noqa: E731
    assert_explains(error_of(place, PipelineError), "value=None cannot be decoded: it is no type", place, "a dataclass")

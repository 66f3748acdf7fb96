"""How values and keys become bytes and come back."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from .annotations import UNKNOWN, TypeForm, is_decorated, is_plain, promised, returned
from .errors import PipelineError
from .finite import json_encoder
from .functions import function
from .validation import explain, require
from .verb_calls import explained_call

T = TypeVar("T")

DECODABLE = "pass a class, not one of its objects, with @dataclass above it; or a Serde that you make of two functions"
"""What to do about a type that msgspec cannot decode."""


@explained_call
@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """A named pair of functions between values of type `type` and bytes.

    Both may raise: a message that cannot be decoded is treated as `on_error` says. What they need and cannot reach is
    no message's fault: they raise `SystemProblem` for it, which ends the run.

    `check(writes)` is what `fluvial check` asks, for a stream that is read or written: it looks whether what the serde
    needs is there, changes nothing, and says what it found, or raises. A serde that has it is not asked to encode then.

    `from_json(document)` makes a value of what a document of JSON holds: dicts, lists, text, numbers, booleans, None. A
    serde that has it is fed JSON lines by `fluvial run --input`; without it a line itself is what is decoded. Fields of
    CSV are texts.

    `layout` says what gives the bytes their meaning, as facts by name, such as a schema. State is not gone on with
    where one of them has changed; one that comes or goes may do so. Without it that is the whole name, and the type.

    >>> hexadecimal = Serde("hex", int, lambda n: b"%x" % n, lambda data: int(data, 16))
    >>> hexadecimal.decode(hexadecimal.encode(255))
    255
    """

    name: str
    type: Any = field(repr=False)
    encode: Callable[[T], bytes] = field(repr=False)
    decode: Callable[[bytes], T] = field(repr=False)
    check: Callable[[bool], str] | None = field(default=None, repr=False)
    from_json: Callable[[Any], T] | None = field(default=None, compare=False, repr=False)
    layout: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        require(
            isinstance(self.name, str), PipelineError, f"Serde: name={self.name!r}", "a text", 'write Serde("hex", ...)'
        )
        function(f"Serde {self.name!r}: encode", self.encode, "value")
        function(f"Serde {self.name!r}: decode", self.decode, "data")
        for name, given, takes in (("check", self.check, "writes"), ("from_json", self.from_json, "document")):
            if given is not None:
                function(f"Serde {self.name!r}: {name}", given, takes)
        layout = self.layout
        texts = isinstance(layout, Mapping) and all(isinstance(one, str) for pair in layout.items() for one in pair)
        wrong = f"Serde {self.name!r}: layout={layout!r}"
        require(
            layout is None or texts,
            PipelineError,
            wrong,
            "texts by texts, such as {'schema': '...'}",
            "leave it out, or correct it",
        )


def _same(data: bytes) -> bytes:
    return data


_OURS: Mapping[str, str] = {}
"""The layout of what a name before the first colon and a type tell all of."""

_RAW: dict[Any, Serde[Any]] = {
    bytes: Serde("bytes", bytes, bytes, _same, layout=_OURS),
    str: Serde("str", str, str.encode, bytes.decode, layout=_OURS),
}


def type_name(type_: Any) -> str:
    """A type as users write it: `Click`, `list[str]`.

    >>> type_name(list[str | None])
    'list[str | None]'
    """
    if type_ is NoneType:
        return "None"
    parts = get_args(type_)
    if not parts:
        return getattr(type_, "__name__", str(type_))
    if get_origin(type_) in (Union, UnionType):
        return " | ".join(type_name(part) for part in parts)
    inner = ", ".join("..." if part is Ellipsis else type_name(part) for part in parts)
    return f"{getattr(get_origin(type_), '__name__', str(type_))}[{inner}]"


def value_serde(type_: Any) -> Serde[Any]:
    """The serde of a value type: `bytes` and `str` raw, everything else JSON through msgspec; a Serde is itself.

    Raises TypeError for a type that msgspec cannot decode. JSON has neither NaN nor infinities: `encode` raises
    NotFinite for them.

    >>> value_serde(list[int]).decode(b"[1,2]")
    [1, 2]
    """
    if isinstance(type_, Serde):
        return type_
    # As they are: others read text and bytes without knowing of JSON.
    if type_ in _RAW:
        return _RAW[type_]
    return _json_serde(type_, type_name(type_))


@lru_cache(maxsize=256)
def _json_serde(type_: Any, name: str) -> Serde[Any]:
    """The serde of a type, which each task of a stage asks for. Types that are equal may have several names: the order
    of a union."""
    return Serde(f"json:{name}", type_, json_encoder(), msgspec.json.Decoder(type_).decode, layout=_OURS)


def msgpack(type: TypeForm[T]) -> Serde[T]:
    """The serde of a type as MessagePack: what JSON through msgspec can hold, in fewer bytes, and NaN and infinities.

    Raises PipelineError for a type that msgspec cannot decode.

    >>> readings = msgpack(dict[str, float])
    >>> readings.encode({"celsius": 21.5})
    b'\\x81\\xa7celsius\\xcb@5\\x80\\x00\\x00\\x00\\x00\\x00'
    """
    try:
        decoder = msgspec.msgpack.Decoder(type)
    except (TypeError, NotImplementedError) as error:
        wrong = f"msgpack({type_name(type)}): values of it cannot be decoded: {error}"
        raise PipelineError(explain(wrong, "a dataclass, Struct, TypedDict or builtin type", DECODABLE)) from None
    encode, from_json = msgspec.msgpack.Encoder().encode, converter(type)
    return Serde(f"msgpack:{type_name(type)}", type, encode, decoder.decode, from_json=from_json, layout=_OURS)


def converter(type_: Any) -> Callable[[Any], Any]:
    """What makes values of a type of what JSON holds; it raises ValueError where that is none.

    >>> converter(dict[str, float])({"celsius": "21.5"})
    {'celsius': 21.5}
    """
    # Fields of CSV are texts, so a text may stand for a number.
    return partial(msgspec.convert, type=type_, strict=False)


_DOUBLE = struct.Struct(">d")


def _eight(data: bytes) -> bytes:
    if len(data) != 8:
        raise ValueError(f"expected 8 bytes, got {len(data)}")
    return data


def _encode_int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _decode_int64(data: bytes) -> int:
    return int.from_bytes(_eight(data), "big", signed=True)


def _encode_float64(value: float) -> bytes:
    return _DOUBLE.pack(value)


def _decode_float64(data: bytes) -> float:
    value: float = _DOUBLE.unpack(_eight(data))[0]
    return value


INT64: Serde[int] = Serde("int64", int, _encode_int64, _decode_int64, from_json=converter(int), layout=_OURS)
"""Whole numbers as 8 bytes, big-endian: what Kafka's `LongSerializer` writes, and what keys of type `int` are."""

FLOAT64: Serde[float] = Serde(
    "float64", float, _encode_float64, _decode_float64, from_json=converter(float), layout=_OURS
)
"""Numbers as 8 bytes, big-endian, after IEEE 754: what Kafka's `DoubleSerializer` writes."""


@cache
def untyped_serde() -> Serde[Any]:
    """JSON of whatever comes: what an output is written with where its type is not known."""
    return Serde("json", Any, json_encoder(), msgspec.json.Decoder().decode, layout=_OURS)


# What eight bytes hold: keys that are int are written like the longs of Kafka's own serializer.
_MIN, _MAX = -(2**63), 2**63 - 1


def _int_key(key: int) -> bytes:
    if not _MIN <= key <= _MAX:
        raise ValueError(f"key {key} does not fit 64 bits")
    return key.to_bytes(8, "big", signed=True)


_pack = msgspec.msgpack.Encoder().encode


def _tuple_key(key: tuple[Any, ...]) -> bytes:
    data = _pack(key)
    # The byte that a float begins with, where it is not one of something else.
    if 0xCB in data:
        check_no_float(key)
    return data


def check_no_float(key: Any) -> None:
    """Raise TypeError for a key with a float in it, however deep."""
    if isinstance(key, float):
        raise TypeError(f"a key is str, bytes, int or a tuple of them, without floats such as {key!r}")
    for part in key if isinstance(key, tuple | list) else ():
        check_no_float(part)


_KEYS: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    bytes: bytes,
    int: _int_key,
    tuple: _tuple_key,
}


def encode_key(key: Any) -> bytes | None:
    """The bytes of a key: str as UTF-8, bytes as they are, int as 8 bytes big-endian (as Java's LongSerializer),
    a tuple of these as MessagePack; None has none.

    >>> encode_key("ada"), encode_key(1)
    (b'ada', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01')
    """
    if key is None:
        return None
    encode = _KEYS.get(type(key))
    if encode is None:
        raise TypeError(f"a key is str, bytes, int or a tuple of them, not {type(key).__name__}: {key!r}")
    return encode(key)


def key_encoder(type_: Any) -> Callable[[Any], bytes | None]:
    """What encodes keys declared to be of a type, or by a Serde, and refuses others; None has no bytes.

    >>> key_encoder(str)("ada")
    b'ada'
    """
    exact: Any = None if isinstance(type_, Serde) else get_origin(type_) or type_
    encode = type_.encode if isinstance(type_, Serde) else _KEYS[exact]

    def encoded(key: Any) -> bytes | None:
        if key is None:
            return None
        # By the class itself: True is an int, but a key of another meaning.
        if exact is not None and type(key) is not exact:
            raise TypeError(f"a key is as declared, key_type={type_name(type_)}, not {type(key).__name__}: {key!r}")
        return encode(key)

    return encoded


def _decode_int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


class WrongKey(ValueError):
    """The key of a record is none of the type that its stream is declared to have."""


_LEAST_TEXT = int.from_bytes(b"        ", "big")
"""The least number whose eight bytes can be eight characters: 2,314,885,530,818,453,536."""


def _decode_foreign_int(data: bytes) -> int:
    number = int.from_bytes(data, "big", signed=True)
    if len(data) != 8 or (number >= _LEAST_TEXT and data.isascii() and data.decode().isprintable()):
        what = "text" if data.isascii() and data.decode().isprintable() else "bytes"
        remedy = "key=str for text, or key=INT64 for numbers above 2.3e18" if len(data) == 8 else "key=str or key=bytes"
        raise WrongKey(f"the key is {what} of length {len(data)}, not an int in eight bytes: declare {remedy}")
    return number


def key_serde(type_: Any) -> Serde[Any]:
    """The serde of a key type: str, bytes, int, or a tuple of them; a Serde is itself. Else TypeError."""
    if isinstance(type_, Serde):
        return type_
    if type_ in _RAW:
        return _RAW[type_]
    if type_ is int:
        return Serde("int", int, _int_key, _decode_int, layout=_OURS)
    if _is_tuple_key(type_):
        return Serde(type_name(type_), type_, _KEYS[tuple], msgspec.msgpack.Decoder(type_).decode, layout=_OURS)
    raise TypeError(f"{type_name(type_)} is not a type of key")


def _is_tuple_key(type_: Any) -> bool:
    parts = get_args(type_)
    return get_origin(type_) is tuple and bool(parts) and all(part in (str, bytes, int) for part in parts)


def source_key_serde(type_: Any) -> Serde[Any]:
    """The serde of the keys of a stream that others write, where a key of type `int` must be one.

    Eight characters are eight bytes, as an int is: a key of eight printable characters is refused. INT64 takes any
    eight bytes. Raises WrongKey on decoding.

    >>> source_key_serde(int).decode(encode_key(17)), source_key_serde(INT64).decode(b"customer")
    (17, 7166761325952853362)
    >>> source_key_serde(int).decode(b"customer")
    Traceback (most recent call last):
    fluvial.dsl.serde.WrongKey: the key is text of length 8, not an int in eight bytes: ...
    """
    return Serde("int", int, _int_key, _decode_foreign_int, layout=_OURS) if type_ is int else key_serde(type_)


def checked_value(what: str, value: Any, option: str = "value") -> Any:
    """A value type or Serde as given, as `option`, refused unless values of it can be decoded."""
    try:
        if value is None:
            raise TypeError("it is no type")
        # msgspec makes a decoder of them, which then refuses each value.
        if (get_origin(value) or value) in (Callable, type):
            raise TypeError("bytes hold no functions and no classes")
        value_serde(value)
    except (TypeError, NotImplementedError) as error:
        wrong = f"{what}: {option}={type_name(value)} cannot be decoded: {error}"
        expected = "a dataclass, Struct, TypedDict or builtin type, bytes, str, or a Serde"
        raise PipelineError(explain(wrong, expected, DECODABLE)) from None
    return value


def checked_key(what: str, key: Any) -> Any:
    """A key type or Serde as given, refused unless it can be a key."""
    try:
        key_serde(key)
    except TypeError as error:
        remedy = "write key=str or key_type=str, and str(...) where the key is made; or tuple[str, int]"
        raise PipelineError(
            explain(f"{what}: {error}", "str, bytes, int, a tuple of them, or a Serde", remedy)
        ) from None
    return key


def declared_key(what: str, fn: Callable[..., Any], key: Any | None, option: str = "key_type") -> Any:
    """The type of the keys that `fn` returns: `key`, which was given as `option`, or else what `fn` is annotated to
    return. Raises PipelineError where neither is known, or they differ."""
    type_ = returned(fn) if key is None else key
    if type_ is UNKNOWN:
        remedy = f"pass {option}=str, or annotate what the function returns"
        raise PipelineError(explain(f"{what}: the type of its keys is not known", "a key type", remedy))
    checked = checked_key(what, type_)
    _check_returned_key(what, fn, checked, option)
    return checked


def _check_returned_key(what: str, fn: Callable[..., Any], key: Any, option: str) -> None:
    """Refuse a function that is annotated to return keys of another plain type than the one that is declared."""
    given = returned(fn)
    known = all(type_ in (str, bytes, int) or _is_tuple_key(type_) for type_ in (given, key))
    good = not known or given == key or is_decorated(fn)
    wrong = f"{what}: its function returns {type_name(given)}, and {option}={type_name(key)}"
    require(good, PipelineError, wrong, "keys of the declared type", f"correct {option}=, or the annotation")


def check_given_key(what: str, fn: Callable[..., Any]) -> None:
    """Refuse a function that is annotated to return what can be no key of a record."""
    given = promised(fn)
    good = given in (str, bytes, int) or not is_plain(given)
    wrong, expected = f"{what}: its function returns {type_name(given)}", "str, bytes, int or a tuple of them, or None"
    require(good, PipelineError, wrong, expected, "return str(...), or correct the annotation")

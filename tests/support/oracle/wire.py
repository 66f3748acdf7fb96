"""Values and keys as bytes, by the rules of the guide's page on serdes: the oracle's own reading and writing.

JSON and MessagePack are msgspec's, as that page says. A `Serde` that a pipeline brings along is called as it is.
"""

import math
from typing import Any, get_origin

import msgspec

from fluvial.dsl import Serde

UNKNOWN: Any = object()
"""The type of values of which nothing is known: they are JSON, and read as what JSON holds."""


def encode(kind: Any, value: Any) -> bytes:
    """The bytes of a value of a type or Serde."""
    if isinstance(kind, Serde):
        return kind.encode(value)
    if kind is str:
        return str.encode(value)
    if kind is bytes:
        return bytes(value)
    data = msgspec.json.encode(value)
    if not _is_finite(msgspec.to_builtins(value, str_keys=True)):
        raise ValueError(f"JSON has neither NaN nor infinities: {value!r}")
    return data


def decode(kind: Any, data: bytes) -> Any:
    """The value of a type or Serde that bytes stand for."""
    if isinstance(kind, Serde):
        return kind.decode(data)
    if kind is str:
        return data.decode()
    if kind is bytes:
        return data
    return msgspec.json.decode(data) if kind is UNKNOWN else msgspec.json.decode(data, type=kind)


def encode_key(key: Any, kind: Any = None) -> bytes | None:
    """The bytes of a key, which may be declared to be written by a Serde; None has none."""
    if key is None:
        return None
    if isinstance(kind, Serde):
        return kind.encode(key)
    if type(key) is tuple:
        for part in key:
            _refuse_float(part)
        return msgspec.msgpack.encode(key)
    if type(key) is str:
        return key.encode()
    if type(key) is int:
        return key.to_bytes(8, "big", signed=True)
    if type(key) is bytes:
        return key
    raise TypeError(f"not a key: {key!r}")


def encode_declared_key(key: Any, kind: Any) -> bytes | None:
    """The bytes of a key that must be of the declared type."""
    if not isinstance(kind, Serde) and key is not None and type(key) is not (get_origin(kind) or kind):
        raise TypeError(f"the key {key!r} is not of the declared type {kind}")
    return encode_key(key, kind)


def decode_key(kind: Any, data: bytes) -> Any:
    """The key of a declared type that bytes stand for; they were written by a pipeline."""
    if kind is int:
        return int.from_bytes(data, "big", signed=True)
    return msgspec.msgpack.decode(data, type=kind) if get_origin(kind) is tuple else decode(kind, data)


def decode_foreign_key(kind: Any, data: bytes) -> Any:
    """The same, of a stream that others write: where an int is declared, text of any length is refused."""
    if kind is int and (len(data) != 8 or all(0x20 <= byte < 0x7F for byte in data)):
        raise ValueError(f"the key {data!r} is no int")
    return decode_key(kind, data)


def _is_finite(value: Any) -> bool:
    """Whether no part of builtin values is NaN or an infinity."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _refuse_float(part: Any) -> None:
    if isinstance(part, float):
        raise TypeError(f"a key holds no float: {part!r}")
    for inner in part if isinstance(part, tuple | list) else ():
        _refuse_float(inner)

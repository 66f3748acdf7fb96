"""Renders values as lines of JSON."""

import re
from base64 import b64encode
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import msgspec

from ...dsl.annotations import UNKNOWN
from ...dsl.finite import spelled
from ...dsl.serde import Serde, untyped_serde, value_serde
from .deep_json import check_deep_json

Render = Callable[[bytes | None], bytes]
"""Turns the bytes of a value into a line, without its end."""

ShownAs = Literal["auto", "json", "text", "base64"]

_UNSEEN = re.compile(rb"\x7f|\xc2[\x80-\x9f]")  # control characters that JSON allows in texts, and terminals interpret
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # not in texts, but in binary keys such as small integers


def _fields(value: Any) -> Any:
    """The fields of a message of Protobuf, for JSON; raises TypeError for other classes."""
    if not hasattr(getattr(value, "DESCRIPTOR", None), "full_name"):
        raise TypeError(f"JSON cannot hold a {type(value).__name__}")
    # Imported by name: it is an optional package, which is installed if there is such a message.
    json_format = import_module("google.protobuf.json_format")
    return json_format.MessageToDict(value, preserving_proto_field_name=True)


_encode = msgspec.json.Encoder(enc_hook=_fields).encode


def json_of_type(type_: Any, *, raw: bool = False) -> Render:
    """The function that shows values of a type or Serde as JSON; None becomes `null`.

    JSON is passed through, `str` becomes a JSON string, `bytes` a JSON string in base64; values that another Serde
    decodes are encoded as JSON. With `raw`, `str` and `bytes` are shown as they are.

    >>> json_of_type(str)(b"ada"), json_of_type(dict[str, int])(b'{"a":1}'), json_of_type(bytes)(b"ada")
    (b'"ada"', b'{"a":1}', b'"YWRh"')
    """
    serde = untyped_serde() if type_ is UNKNOWN else value_serde(type_)
    if serde.name in ("str", "bytes"):
        return _or_null(_same if raw else {"str": _text, "bytes": _base64}[serde.name])
    return _or_null(_same if not isinstance(type_, Serde) else lambda value: _decoded(serde.decode(value)))


def json_of_bytes(shown_as: ShownAs) -> Render:
    """How to show values of unknown type: as JSON, as text, as base64; with `auto` as JSON if they are JSON, else as
    `shown`."""
    return _or_null(_SHOWN[shown_as])


def unobeyed(line: bytes) -> bytes:
    """A line of JSON that terminals do not interpret: the control characters that JSON allows in texts are escaped.

    >>> unobeyed('"\x9b2J"'.encode())
    b'"\\\\u009b2J"'
    """
    return _UNSEEN.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), line)


def shown(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes of unknown type, for JSON: a text if they are text, else an object with their base64.

    >>> shown(b"ada"), shown(b"\\x00")
    ('ada', {'base64': 'AA=='})
    """
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
    return {"base64": b64encode(data).decode()} if _CONTROL.search(text) else text


def _or_null(render: Callable[[bytes], bytes]) -> Render:
    return lambda value: b"null" if value is None else render(value)


def _decoded(value: Any) -> bytes:
    """A decoded value as JSON. NaN and infinities, which JSON does not have, are spelled as texts."""
    data = _encode(value)
    if b"null" not in data:
        return data
    return _encode(spelled(msgspec.to_builtins(value, enc_hook=_fields, str_keys=True)))


def _same(value: bytes) -> bytes:
    return value


def _text(value: bytes) -> bytes:
    return _encode(value.decode("utf-8", "backslashreplace"))


def _base64(value: bytes) -> bytes:
    return _encode(b64encode(value).decode())


def _document(value: bytes) -> bytes:
    """JSON on one line; raises ValueError for bytes that are not JSON."""
    try:
        return _shallow(value)
    except RecursionError:
        check_deep_json(value)
        return value.replace(b"\r", b" ").replace(b"\n", b" ")  # no string of JSON holds them as they are


def _shallow(value: bytes) -> bytes:
    """JSON on one line, decoded by msgspec; raises RecursionError for JSON that is nested too deeply for it."""
    msgspec.json.decode(value)
    return msgspec.json.format(value, indent=-1) if b"\n" in value or b"\r" in value else value


def _any(value: bytes) -> bytes:
    try:
        return _shallow(value)
    except (ValueError, RecursionError):  # as a text, a value that is nested deeply can be decoded by those who read it
        return _encode(shown(value))


_SHOWN: dict[ShownAs, Callable[[bytes], bytes]] = {"auto": _any, "json": _document, "text": _text, "base64": _base64}

"""How the file for a stream is read and encoded, according to the types that the pipeline declares for the stream."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ....dsl import operators as ops
from ....dsl.errors import FluvialError
from ....dsl.pipeline import Pipeline
from ....dsl.serde import Serde, converter, encode_key, key_serde, type_name, value_serde
from ...files import Encoding, ReadOptions

EVERY_STREAM = ""
"""Stands for all streams."""


def reading_of(pipeline: Pipeline, stream: str, reading: ReadOptions, key_fields: Mapping[str, str]) -> ReadOptions:
    """The options for the file of a stream. `key_fields` are by stream. The default format is json if the serde of the
    stream accepts JSON or a field holds the key, else lines."""
    key_field = key_fields.get(stream, key_fields.get(EVERY_STREAM))
    value = _source(pipeline, stream).value
    wants_json = key_field is not None or (isinstance(value, Serde) and value.from_json is not None)
    return replace(reading, key_field=key_field, format=reading.format or ("json" if wants_json else "lines"))


def encoding_of(pipeline: Pipeline, stream: str, reading: ReadOptions) -> Encoding:
    """How keys and values are encoded, to the bytes that the pipeline decodes."""
    source = _source(pipeline, stream)
    key = encode_key if source.key is None else _key_encoder(source.key)
    if not isinstance(source.value, Serde):
        # An empty line is a value if values are text or bytes, else it is skipped.
        return Encoding(key=key, skips_blank=value_serde(source.value).name not in ("str", "bytes"))
    make = source.value.from_json
    if make is None or reading.format == "lines":
        return Encoding(key=key)
    return Encoding(_encoder("value", make, source.value.encode), key)


def _source(pipeline: Pipeline, stream: str) -> ops.Source:
    return next(source for source in pipeline.sources if source.stream == stream)


def _key_encoder(type_: Any) -> Callable[[Any], bytes | None]:
    serde = key_serde(type_)
    convert = _bytes if type_ is bytes else serde.from_json or converter(serde.type)
    encode = _encoder(f"key of type {type_name(serde.type)}", convert, serde.encode)
    return lambda field: None if field is None else encode(field)


def _bytes(field: Any) -> bytes:
    if not isinstance(field, str):
        raise ValueError(f"expected text, got {field!r}")
    return field.encode()


def _encoder(what: str, make: Callable[[Any], Any], encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encoded(document: Any) -> bytes:
        try:
            # A request of an access log is a Struct, and serdes convert dicts.
            plain = msgspec.to_builtins(document) if isinstance(document, msgspec.Struct) else document
            return encode(make(plain))
        except FluvialError:  # the registry is out of reach
            raise
        except Exception as error:  # a Serde may be the user's, and raise anything
            raise ValueError(f"it cannot be encoded as {what}: {error}") from error

    return encoded

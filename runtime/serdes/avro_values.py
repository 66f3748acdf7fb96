"""Values in Avro's binary encoding, one record a message."""

import io
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

import fastavro
import msgspec
from fastavro.read import LOGICAL_READERS
from fastavro.schema import parse_schema

from ...dsl.annotations import TypeForm
from ...dsl.errors import PipelineError
from ...dsl.serde import Serde, converter, type_name
from ...dsl.text import error_text
from ...dsl.validation import explain
from .avro_canonical import canonical_text
from .avro_documents import document_value
from .avro_reader import compiled_reader
from .avro_writer import compiled_writer
from .registry_serdes import IN_REGISTRY, Keep, Read, registered
from .schemas import Schema, SchemaKind

if TYPE_CHECKING:
    from .registry import Registry

T = TypeVar("T")

SchemaSource = str | Path | Mapping[str, Any] | list[Any]
"""A schema: its JSON, the file with the JSON, or the decoded JSON."""

_EXPECTED = "a schema of Avro: its JSON, the Path of a file with it, a dict or a list"
_NATIVE = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
"""The Python classes of logical types."""


@overload
def avro(
    schema: SchemaSource,
    *,
    type: TypeForm[T],
    registry: "Registry | None" = None,
    subject: str | None = None,
    register: bool = True,
    normalize: bool = False,
) -> Serde[T]: ...
@overload
def avro(
    schema: SchemaSource,
    *,
    type: None = None,
    registry: "Registry | None" = None,
    subject: str | None = None,
    register: bool = True,
    normalize: bool = False,
) -> Serde[Any]: ...
def avro(
    schema: SchemaSource,
    *,
    type: Any = None,
    registry: "Registry | None" = None,
    subject: str | None = None,
    register: bool = True,
    normalize: bool = False,
) -> Serde[Any]:
    """The serde of values in Avro's binary encoding, with a schema of yours.

    `type` is the dataclass, Struct or TypedDict that a record becomes, its fields named as the schema's; without it
    records are dicts. Logical types are `datetime`, `date`, `time`, `Decimal` and `UUID`.

    Without `registry` a message is the bare record, and must have been written with this very schema. With it a
    message has the id of its schema, and values written with another schema are resolved to this one by Avro's rules
    of schema resolution. Values are written under `subject`: its schema is registered with the first of them,
    `normalize`d if you wish, or under `register=False` must have been before.

    Raises PipelineError for a schema that is none, and for a type with fields that the schema lacks.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Click:
    ...     url: str
    >>> fields = [{"name": "url", "type": "string"}]
    >>> clicks = avro({"type": "record", "name": "Click", "fields": fields}, type=Click)
    >>> clicks.encode(Click("/"))
    b'\\x02/'
    >>> clicks.decode(b"\\x02/")
    Click(url='/')
    """
    text = _text_of(schema)
    format = AvroFormat(text, type)
    codec = registered(f"avro {format.name}", format, registry, subject, register, normalize) or format
    check = getattr(codec, "check", None)
    layout = {"schema": IN_REGISTRY if registry is not None else format.canonical}
    return Serde(f"avro:{format.name}", format.type, codec.encode, codec.decode, check, format.from_json, layout)


class AvroFormat:
    """Writes values of a type with a schema, and reads them."""

    kind: SchemaKind = "AVRO"
    form: str | None = None

    def __init__(self, text: str, type: Any) -> None:
        self._arguments = (text, type)
        self._named: dict[str, Any] = {}
        self._schema = _checked(text, self._named)
        record = isinstance(self._schema, dict) and self._schema.get("type") in ("record", "error")
        self.name: str = self._schema["name"] if isinstance(self._schema, dict) and "name" in self._schema else "value"
        self.type: Any = type if type is not None else dict[str, Any] if record else Any
        if type is not None and record:
            _check_fields(self.name, self._schema, type)
        self._write = compiled_writer(self._schema, type, self.write_by_library)
        self._decode = compiled_reader(self._schema, type, self.read_by_library)
        self._native = _same if type is None else partial(msgspec.to_builtins, builtin_types=_NATIVE, str_keys=True)
        self._typed = _same if type is None else partial(msgspec.convert, type=type)
        self._convert = converter(type)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroFormat, self._arguments

    @property
    def canonical(self) -> str:
        """The parts of the schema that decide how bytes are decoded."""
        return canonical_text(self._schema)

    def write(self, value: Any) -> bytes:
        """Encode a value as a record; raises ValueError for a value that the schema does not describe."""
        return self._write(value)

    encode = write

    def decode(self, data: bytes) -> Any:
        """Decode a record that was written with this schema; raises ValueError for other bytes."""
        return self._decode(data)

    def write_by_library(self, value: Any) -> bytes:
        """Encode a value as `write` does, by fastavro: it takes every schema, and several times as long as functions
        that are compiled for one."""
        with io.BytesIO() as file:
            try:
                fastavro.schemaless_writer(file, self._schema, self._native(value), strict_allow_default=True)
            except Exception as error:  # fastavro raises errors of many classes
                raise ValueError(f"the value is none of Avro's {self.name}: {error_text(error)}") from error
            return file.getvalue()

    def from_json(self, document: Any) -> Any:
        """The value of a JSON document; raises ValueError for a document that does not fit the schema."""
        untyped = self._arguments[1] is None
        return document_value(self._schema, self._named, document) if untyped else self._convert(document)

    def read_by_library(self, data: bytes) -> Any:
        """Decode a record as `decode` does, without a function that is compiled for the schema."""
        return self._read(self._schema, None, data)

    def schema(self, keep: Keep) -> Schema:
        """The schema, which uses no others."""
        del keep
        return Schema(self.kind, self._arguments[0])

    def reader(self, written: Schema, registry: "Registry") -> Read:
        """The function that reads records written with a schema."""
        used = registry.referenced(written)
        known: dict[str, Any] = {}
        try:
            *_, parsed = [_parsed(schema.text, known) for schema in (*used, written)]
        except Exception as error:  # fastavro raises errors of many classes
            raise ValueError(f"the schema that the message names is none of Avro's: {error_text(error)}") from error
        return self.decode if parsed == self._schema else partial(self._read, parsed, self._schema)

    def _read(self, written: Any, wanted: Any, data: bytes) -> Any:
        with io.BytesIO(data) as file:
            try:
                value = self._typed(fastavro.schemaless_reader(file, written, wanted))
            except Exception as error:  # fastavro raises errors of many classes
                raise ValueError(f"the message is none of Avro's {self.name}: {error_text(error)}") from error
            if (rest := len(data) - file.tell()) > 0:
                raise ValueError(f"the message is none of Avro's {self.name}: it goes on for {rest} bytes behind it")
            return value


def _same(value: Any) -> Any:
    return value


def _text_of(schema: SchemaSource) -> str:
    try:
        if isinstance(schema, Path):
            return schema.read_text(encoding="utf-8")
        return schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
    except (OSError, ValueError, TypeError) as error:
        raise PipelineError(explain(f"avro: the schema cannot be read: {error}", _EXPECTED)) from None


def _parsed(text: str, known: dict[str, Any]) -> Any:
    """A schema parsed by fastavro. `known` has the types that it may use; those that it defines are added."""
    schema = parse_schema(msgspec.json.decode(text), known)
    _make_defaults_native(schema)
    return schema


def _make_defaults_native(schema: Any) -> None:
    """Convert the defaults of a schema: fastavro returns them as they are in JSON, unlike the values that it reads."""
    if isinstance(schema, list):
        for branch in schema:
            _make_defaults_native(branch)
    if not isinstance(schema, dict):
        return
    for inner in (schema.get("items"), schema.get("values")):
        _make_defaults_native(inner)
    for field in schema.get("fields", ()):
        _make_defaults_native(field["type"])
        if "default" in field:
            field["default"] = _native(field["type"], field["default"])


def _native(type_: Any, value: Any) -> Any:
    if isinstance(type_, list):  # a default belongs to the first type of a union
        return _native(type_[0], value)
    name, logical = (type_["type"], type_.get("logicalType")) if isinstance(type_, dict) else (type_, None)
    if name in ("bytes", "fixed") and isinstance(value, str):
        value = value.encode("latin-1")  # as Avro writes bytes in JSON
    convert = LOGICAL_READERS.get(f"{name}-{logical}")
    return value if convert is None else convert(value, type_, None)


def _checked(text: str, named: dict[str, Any]) -> Any:
    try:
        return _parsed(text, named)
    except Exception as error:  # fastavro raises errors of many classes
        wrong = f"avro: the schema is none: {error_text(error)}"
        remedy = 'write such as {"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}]}'
        raise PipelineError(explain(wrong, _EXPECTED, remedy)) from None


def _check_fields(name: str, schema: Any, type: Any) -> None:
    """Raise UsageError for a type with required fields that the schema does not have."""
    try:
        info = msgspec.inspect.type_info(type)
    except (TypeError, NotImplementedError) as error:
        wrong = f"avro {name}: type={type_name(type)} cannot be made of records: {error}"
        raise PipelineError(explain(wrong, "a dataclass, Struct or TypedDict")) from None
    has = {field["name"] for field in schema["fields"]}
    lacking = [
        field.encode_name for field in getattr(info, "fields", ()) if field.required and field.encode_name not in has
    ]
    if lacking:
        wrong = f"avro {name}: type={type_name(type)} needs {', '.join(lacking)}, of which the schema knows nothing"
        remedy = "give the schema these fields, or the type defaults for them"
        raise PipelineError(explain(wrong, f"fields among {', '.join(sorted(has)) or 'none'}", remedy))

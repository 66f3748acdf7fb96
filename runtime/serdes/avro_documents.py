"""Converts JSON documents to the values that fastavro writes with a schema."""

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

Named = Mapping[str, Any]
"""Named schemas, by name."""

_KINDS: Mapping[str, type] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "fixed": bytes,
    "string": str,
    "enum": str,
}
_LOGICAL: Mapping[str, type] = {
    "decimal": Decimal,
    "uuid": UUID,
    "date": date,
    "time-millis": time,
    "time-micros": time,
    "timestamp-millis": datetime,
    "timestamp-micros": datetime,
    "local-timestamp-millis": datetime,
    "local-timestamp-micros": datetime,
}


def document_value(schema: Any, named: Named, document: Any) -> Any:
    """The value of a schema that a document tells, as `fluvial consume` shows it: bytes are base64, times ISO 8601 or
    whole numbers in the schema's unit, decimals texts or numbers. Raises ValueError for one that tells none.

    >>> document_value({"type": "long", "logicalType": "timestamp-millis"}, {}, "2024-05-17T10:05:03Z")
    datetime.datetime(2024, 5, 17, 10, 5, 3, tzinfo=datetime.timezone.utc)
    """
    return _value(schema, named, document, strict=False)


def _value(schema: Any, named: Named, document: Any, *, strict: bool) -> Any:
    if isinstance(schema, list):
        return _one_of(schema, named, document)
    name = schema["type"] if isinstance(schema, dict) else schema
    if name in named and not (isinstance(schema, dict) and schema is named[name]):
        return _value(named[name], named, document, strict=strict)
    if name in ("record", "error"):
        _expect(document, dict)
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        return {
            # The writer refuses fields that the schema does not have.
            key: _value(fields[key], named, value, strict=strict) if key in fields else value
            for key, value in document.items()
        }
    if name == "array":
        _expect(document, list)
        return [_value(schema["items"], named, item, strict=strict) for item in document]
    if name == "map":
        _expect(document, dict)
        return {key: _value(schema["values"], named, value, strict=strict) for key, value in document.items()}
    if name == "null":
        return msgspec.convert(document, None)
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    if logical in _LOGICAL and not (type(document) is int and logical != "decimal"):
        return msgspec.convert(document, _LOGICAL[logical], strict=False)
    return msgspec.convert(document, _KINDS[name], strict=strict)


def _one_of(branches: list[Any], named: Named, document: Any) -> Any:
    """The value of the first branch of a union that the document fits exactly, else of the first to which it can be
    converted."""
    for strict in (True, False):
        for branch in branches:
            try:
                return _value(branch, named, document, strict=strict)
            except ValueError:
                continue
    raise ValueError(f"{document!r} is none of the union's types")


def _expect(document: Any, type_: type) -> None:
    if not isinstance(document, type_):
        raise ValueError(f"expected {'an object' if type_ is dict else 'an array'}, got {document!r}")

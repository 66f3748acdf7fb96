"""Generates functions that encode values as Avro, one for each pair of a schema and a type: they do not walk through
the schema for each value.

They support numbers, strings, bytes, enums, arrays, maps, optional values, nested records, and logical types. Where
such a function raises, the value may still be valid: the library then encodes or refuses it.
"""

import struct
from collections.abc import Callable
from typing import Any

from fastavro.write import LOGICAL_WRITERS
from msgspec import inspect as types

from .avro_code import Code
from .avro_numbers import SMALL, varint
from .avro_types import (
    LOGICAL,
    TYPES,
    Unfit,
    class_of,
    description_of,
    fitting_type,
    identifier,
    optional,
    python_class,
)

Write = Callable[[Any], bytes]
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def compiled_writer(schema: Any, type: Any, library: Write) -> Write:
    """A function that writes values of a type (None for dicts); it leaves others to the library."""
    try:
        code = Code()
        parts = code_that_writes(code, schema, description_of(type), "value")
        code.line(f"return b''.join(({', '.join(parts)},))")
        writer: Write = code.function("value", {"SMALL": SMALL, "varint": varint}, library)
    except Unfit:
        return library
    return writer


def code_that_writes(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    """Add code that writes a value; returns the expressions of its bytes, in order. There is such a function for each
    kind of schema."""
    kind, schema = code.resolved(schema)
    if kind == "union":
        return _write_union(code, schema, type, value)
    if kind in ("record", "error"):
        return _write_record(code, schema, type, value)
    logical = f"{kind}-{schema.get('logicalType')}"
    if logical in LOGICAL_WRITERS:
        wanted = python_class(fitting_type(type, LOGICAL.get(logical)))
        _check_class(code, value, wanted)
        changed = code.name()
        code.line(f"{changed} = {code.name(LOGICAL_WRITERS[logical])}({value}, {code.name(schema)})")
        return code_that_writes(code, {**schema, "logicalType": None}, types.AnyType(), changed)
    inner = fitting_type(type, TYPES.get(kind))
    return _WRITERS[kind](code, schema, inner, value)


def _check_class(code: Code, value: str, wanted: Any) -> None:
    code.line(f"if {value}.__class__ is not {code.name(wanted)}:")
    code.line("    raise Unfit")


def _write_union(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    null, other, rest = optional(schema["branches"], type)
    encoded = code.name()
    code.line(f"if {value} is None:")
    code.line(f"    {encoded} = {bytes([2 * null])!r}")
    code.line("else:")
    code.depth += 1
    parts = code_that_writes(code, other, rest, value)
    code.line(f"{encoded} = b''.join(({bytes([2 - 2 * null])!r}, {', '.join(parts)}))")
    code.depth -= 1
    return [encoded]


def _write_record(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    fields = code.fields(schema, type)
    code.open.append(schema["name"])
    as_dict = isinstance(type, types.AnyType | types.TypedDictType)
    _check_class(code, value, dict if as_dict else class_of(type))
    if as_dict:
        code.line(f"if len({value}) != {len(fields)}:")
        code.line("    raise Unfit")
    elif len(getattr(type, "fields", ())) != len(fields):
        raise Unfit
    parts: list[str] = []
    for one, known in fields:
        if known is None and not isinstance(type, types.AnyType):
            raise Unfit
        held = code.name()
        where = f"[{one['name']!r}]" if as_dict or known is None else f".{identifier(known.name)}"
        code.line(f"{held} = {value}{where}")
        parts += code_that_writes(code, one["type"], known.type if known else types.AnyType(), held)
    code.open.pop()
    return parts


def _write_null(code: Code, _: Any, __: Any, value: str) -> list[str]:
    code.line(f"if {value} is not None:")
    code.line("    raise Unfit")
    return ["b''"]


def _write_boolean(code: Code, _: Any, __: Any, value: str) -> list[str]:
    _check_class(code, value, bool)
    return [f"(b'\\1' if {value} else b'\\0')"]


def _write_long(code: Code, _: Any, __: Any, value: str) -> list[str]:
    _check_class(code, value, int)
    return [f"(SMALL[{value}] if -8192 <= {value} < 8192 else varint({value}))"]


def _write_int(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    parts = _write_long(code, schema, type, value)
    code.line(f"if not -0x80000000 <= {value} <= 0x7fffffff:")
    code.line("    raise Unfit")
    return parts


def _number_of(code: Code, value: str) -> str:
    """The number of items, of a value that has a length."""
    length = code.name()
    return f"(SMALL[{length}] if ({length} := len({value})) < 8192 else varint({length}))"


def _write_float(code: Code, schema: Any, _: Any, value: str) -> list[str]:
    del schema
    _check_number(code, value)
    return [f"{code.name(_FLOAT.pack)}({value})"]


def _write_double(code: Code, _: Any, __: Any, value: str) -> list[str]:
    _check_number(code, value)
    return [f"{code.name(_DOUBLE.pack)}({value})"]


def _check_number(code: Code, value: str) -> None:
    code.line(f"if {value}.__class__ is not float and {value}.__class__ is not int:")
    code.line("    raise Unfit")


def _write_bytes(code: Code, _: Any, __: Any, value: str) -> list[str]:
    _check_class(code, value, bytes)
    return [_number_of(code, value), value]


def _write_fixed(code: Code, schema: Any, _: Any, value: str) -> list[str]:
    _check_class(code, value, bytes)
    code.line(f"if len({value}) != {schema['size']}:")
    code.line("    raise Unfit")
    return [value]


def _write_string(code: Code, _: Any, __: Any, value: str) -> list[str]:
    data = code.name()
    code.line(f"{data} = {value}.encode()")
    return [_number_of(code, data), data]


def _write_enum(code: Code, schema: Any, _: Any, value: str) -> list[str]:
    _check_class(code, value, str)
    known = {symbol: varint(number) for number, symbol in enumerate(schema["symbols"])}
    return [f"{code.name(known)}[{value}]"]


def _write_array(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    _check_class(code, value, list)
    pieces, item = code.name(), code.name()
    code.line(f"{pieces} = []")
    code.line(f"for {item} in {value}:")
    code.depth += 1
    parts = code_that_writes(code, schema["items"], getattr(type, "item_type", types.AnyType()), item)
    code.line(f"{pieces} += ({', '.join(parts)},)")
    code.depth -= 1
    return _block(code, pieces, value)


def _write_map(code: Code, schema: Any, type: Any, value: str) -> list[str]:
    _check_class(code, value, dict)
    pieces, key, item = code.name(), code.name(), code.name()
    code.line(f"{pieces} = []")
    code.line(f"for {key}, {item} in {value}.items():")
    code.depth += 1
    parts = _write_string(code, None, None, key)
    parts += code_that_writes(code, schema["values"], getattr(type, "value_type", types.AnyType()), item)
    code.line(f"{pieces} += ({', '.join(parts)},)")
    code.depth -= 1
    return _block(code, pieces, value)


def _block(code: Code, pieces: str, value: str) -> list[str]:
    """The number of items, the items, and a zero; without items only the zero."""
    return [f"({_number_of(code, value)} if {value} else b'')", f"*{pieces}", "b'\\0'"]


_WRITERS: dict[str, Callable[[Code, Any, Any, str], list[str]]] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_int,
    "long": _write_long,
    "float": _write_float,
    "double": _write_double,
    "bytes": _write_bytes,
    "fixed": _write_fixed,
    "string": _write_string,
    "enum": _write_enum,
    "array": _write_array,
    "map": _write_map,
}

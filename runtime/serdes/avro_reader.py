"""Functions made for one schema and type, that read Avro without a walk through the schema for each value: see
`avro_writer`."""

import struct
from collections.abc import Callable
from typing import Any

from fastavro.read import LOGICAL_READERS
from msgspec import NODEFAULT
from msgspec import inspect as types

from .avro_code import Code
from .avro_numbers import NUMBERS, SIZES, UPPER, read_number, read_size
from .avro_types import LOGICAL, TYPES, Unfit, class_of, description_of, fitting_type, identifier, open_twin, optional
from .registry_serdes import Read

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TOOLS = {"NUMBERS": NUMBERS, "SIZES": SIZES, "number": read_number, "size": read_size, "six": UPPER.get}


def compiled_reader(schema: Any, type: Any, library: Read) -> Read:
    """A function that reads values written with the schema; it leaves values that it cannot read to the library."""
    try:
        code = Code()
        code.line("i, end = 0, len(data)")
        value = code_that_reads(code, schema, description_of(type))
        code.line("if i != end:")
        code.line("    raise Unfit")
        code.line(f"return {value}")
        reader: Read = code.function("data", _TOOLS, library)
    except Unfit:
        return library
    return reader


def code_that_reads(code: Code, schema: Any, type: Any) -> str:
    """Add code that reads a value and moves `i` behind it; returns the expression of the value. So do the functions for
    each kind of schema."""
    kind, schema = code.resolved(schema)
    if kind == "union":
        return _read_union(code, schema, type)
    if kind in ("record", "error"):
        return _read_record(code, schema, type)
    logical = f"{kind}-{schema.get('logicalType')}"
    if logical in LOGICAL_READERS:
        fitting_type(type, LOGICAL.get(logical))
        value = code_that_reads(code, {**schema, "logicalType": None}, types.AnyType())
        return f"{code.name(LOGICAL_READERS[logical])}({value}, {code.name(schema)}, None)"
    inner = fitting_type(type, TYPES.get(kind))
    return _READERS[kind](code, schema, inner)


def _read_union(code: Code, schema: Any, type: Any) -> str:
    null, other, rest = optional(schema["branches"], type)
    value, branch = code.name(), code.name()
    code.line(f"{branch} = data[i]; i += 1")
    code.line(f"if {branch} == {2 * null}:")
    code.line(f"    {value} = None")
    code.line(f"elif {branch} == {2 - 2 * null}:")
    code.depth += 1
    code.line(f"{value} = {code_that_reads(code, other, rest)}")
    code.depth -= 1
    code.line("else:")
    code.line("    raise Unfit")
    return value


def _read_record(code: Code, schema: Any, type: Any) -> str:
    fields = code.fields(schema, type)
    code.open.append(schema["name"])
    values: dict[str, str] = {}
    for one, known in fields:
        value = code.name()
        code.line(f"{value} = {code_that_reads(code, one['type'], known.type if known else types.AnyType())}")
        if known is not None:
            values[known.name] = value
        elif isinstance(type, types.AnyType):
            values[one["name"]] = value
    code.open.pop()
    return _built(code, type, values)


def _built(code: Code, type: Any, values: dict[str, str]) -> str:
    """A record of a type, made of its fields as msgspec does."""
    missing = [one for one in getattr(type, "fields", ()) if one.required and one.name not in values]
    if missing:  # the library raises an error for each record
        raise Unfit
    if isinstance(type, types.AnyType | types.TypedDictType):
        return f"{{{', '.join(f'{name!r}: {part}' for name, part in values.items())}}}"
    kind = class_of(type)
    if isinstance(type, types.StructType):
        by_position = [values.get(name) for name in kind.__match_args__]
        parts = by_position if len(values) == len(by_position) and None not in by_position else None
        parts = parts or [f"{identifier(name)}={part}" for name, part in values.items()]
        return f"{code.name(kind)}({', '.join(map(str, parts))})"
    value = code.name()
    code.line(f"{value} = {code.name(open_twin(kind))}()")
    for one in type.fields:
        code.line(f"{value}.{identifier(one.name)} = {values.get(one.name) or _default(code, one)}")
    code.line(f"{value}.__class__ = {code.name(kind)}")
    return value


def _default(code: Code, one: types.Field) -> str:
    if one.default_factory is not NODEFAULT:
        return f"{code.name(one.default_factory)}()"
    return "None" if one.default is None else code.name(one.default)


def _read_null(_: Code, __: Any, ___: Any) -> str:
    return "None"


def _read_boolean(code: Code, _: Any, __: Any) -> str:
    value = code.name()
    code.line(f"{value} = {code.name((False, True))}[data[i]]; i += 1")
    return value


def _read_long(code: Code, _: Any, __: Any) -> str:
    value = code.name()
    first, second, upper = code.name(), code.name(), code.name()
    code.line(f"{value} = NUMBERS[{first} := data[i]]")
    code.line(f"if {value} is not None:")
    code.line("    i += 1")
    code.line(f"elif ({second} := data[i + 1]) < 128:")
    code.line(f"    {first} += ({second} << 7) - 128; i += 2")
    code.line(f"    {value} = ({first} >> 1) ^ -({first} & 1)")
    code.line(f"elif ({upper} := six(data[i + 2:i + 6])) is not None:")
    code.line(f"    {first} += ({second} << 7) + {upper}; i += 6")
    code.line(f"    {value} = ({first} >> 1) ^ -({first} & 1)")
    code.line("else:")
    code.line(f"    {value}, i = number(data, i)")
    return value


def _length(code: Code) -> str:
    """Read a number that must not be negative."""
    size = code.name()
    code.line(f"{size} = SIZES[data[i]]; i += 1")
    code.line(f"if {size} is None:")
    code.line(f"    {size}, i = size(data, i - 1)")
    return size


def _read_float(code: Code, schema: Any, _: Any) -> str:
    del schema
    return _unpacked(code, _FLOAT)


def _read_double(code: Code, _: Any, __: Any) -> str:
    return _unpacked(code, _DOUBLE)


def _unpacked(code: Code, layout: struct.Struct) -> str:
    value = code.name()
    code.line(f"({value},) = {code.name(layout.unpack_from)}(data, i); i += {layout.size}")
    return value


def _read_bytes(code: Code, _: Any, __: Any) -> str:
    length, value = _length(code), code.name()
    code.line(f"{length} += i")
    code.line(f"{value} = data[i:{length}]; i = {length}")
    return value


def _read_fixed(code: Code, schema: Any, _: Any) -> str:
    value = code.name()
    code.line(f"{value} = data[i:i + {schema['size']}]; i += {schema['size']}")
    return value


def _read_string(code: Code, _: Any, __: Any) -> str:
    length, value = _length(code), code.name()
    code.line(f"{length} += i")
    code.line(f"{value} = data[i:{length}].decode(); i = {length}")
    return value


def _read_enum(code: Code, schema: Any, _: Any) -> str:
    length, value = _length(code), code.name()
    code.line(f"{value} = {code.name(tuple(schema['symbols']))}[{length}]")
    return value


def _read_array(code: Code, schema: Any, type: Any) -> str:
    items = code.name()
    code.line(f"{items} = []")
    _items(code, lambda: f"{items}.append({_item(code, schema['items'], getattr(type, 'item_type', types.AnyType()))})")
    return items


def _read_map(code: Code, schema: Any, type: Any) -> str:
    items = code.name()

    def put() -> str:
        key = code.name()
        code.line(f"{key} = {_read_string(code, None, None)}")
        value = code_that_reads(code, schema["values"], getattr(type, "value_type", types.AnyType()))
        return f"{items}[{key}] = {value}"

    code.line(f"{items} = {{}}")
    _items(code, put)
    return items


def _item(code: Code, schema: Any, type: Any) -> str:
    """Read an item of an array. It must have at least one byte, or the number of items would have no bound."""
    kind, inner = code.resolved(schema)
    if kind == "null" or (kind == "fixed" and inner["size"] == 0) or kind in ("record", "error"):
        least = kind in ("record", "error") and any(_takes_bytes(code, one["type"]) for one in inner["fields"])
        if not least:
            raise Unfit
    return code_that_reads(code, schema, type)


def _takes_bytes(code: Code, schema: Any) -> bool:
    return code.resolved(schema)[0] not in ("null", "fixed", "record", "error")


def _items(code: Code, one: Callable[[], str]) -> None:
    """Read blocks of items up to the empty block. Blocks with a size in bytes are left to the library."""
    code.line("while True:")
    code.depth += 1
    number = _length(code)
    code.line(f"if not {number}:")
    code.line("    break")
    code.line(f"if {number} > end - i:")  # each takes a byte at least: see `_item`
    code.line("    raise Unfit")
    code.line(f"for {code.name()} in range({number}):")
    code.depth += 1
    code.line(one())
    code.depth -= 2


_READERS: dict[str, Callable[[Code, Any, Any], str]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_long,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "fixed": _read_fixed,
    "string": _read_string,
    "enum": _read_enum,
    "array": _read_array,
    "map": _read_map,
}

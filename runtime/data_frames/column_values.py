"""The values of columns: what Arrow takes for each field of a message's value, by the type that `columns_of` reads."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect

from .columns import RECORDS, SEQUENCES, VALUE

Convert = Callable[[Any], Any]
"""Makes of a value what Arrow takes."""


def column_values(type_: Any) -> dict[str, Convert]:
    """What makes the value of each column of a value of a type, by the name of the column.

    >>> {name: convert(Window(1, 2)) for name, convert in column_values(Window).items()}
    {'start': 1, 'end': 2}
    """
    info = inspect.type_info(type_)
    if not isinstance(info, RECORDS):
        return {VALUE: _convert(info) or _same}
    return {name: _converted(read, convert) for name, read, convert in _fields(info)}


def _same(value: Any) -> Any:
    return value


def _converted(read: Convert, convert: Convert | None) -> Convert:
    if convert is None:
        return read

    def field(value: Any) -> Any:
        cell = read(value)
        return None if cell is None else convert(cell)

    return field


def _fields(info: Any) -> list[tuple[str, Convert, Convert | None]]:
    """The name of each field's column, what reads the field, and what converts it."""
    by_name = isinstance(info, inspect.TypedDictType)
    return [
        (
            field.encode_name,
            partial(_item, field.name) if by_name else attrgetter(field.name),
            _convert(field.type),
        )
        for field in info.fields
    ]


def _item(name: str, value: Any) -> Any:
    return value.get(name)


def _convert(info: inspect.Type) -> Convert | None:
    """What converts values of a type that are not None; None if Arrow takes them as they are."""
    for kinds, make in _KINDS:
        if isinstance(info, kinds):
            return make(info)
    return None


def _record(info: Any) -> Convert:
    fields = [(name, _converted(read, convert)) for name, read, convert in _fields(info)]
    return lambda value: {name: read(value) for name, read in fields}


def _each(convert: Convert | None, value: Any) -> list[Any]:
    if convert is None:
        return list(value)
    return [None if one is None else convert(one) for one in value]


def _sequence(info: Any) -> Convert:
    return partial(_each, _convert(info.item_type))


def _tuple(info: Any) -> Convert:
    # All items have columns of one type; each may need to be converted in its own way.
    converts = [_convert(item) or _same for item in info.item_types]
    return lambda value: [None if one is None else convert(one) for convert, one in zip(converts, value, strict=True)]


def _map(info: Any) -> Convert:
    convert, name = _convert(info.value_type) or _same, _convert(info.key_type) or _same
    return lambda value: [(name(key), None if one is None else convert(one)) for key, one in value.items()]


def _union(info: Any) -> Convert | None:
    (left,) = (one for one in info.types if not isinstance(one, inspect.NoneType))
    return _convert(left)


def _text(_: Any) -> Convert:
    return msgspec.to_builtins


def _enum(_: Any) -> Convert:
    return attrgetter("value")


def _bytes(_: Any) -> Convert:
    return bytes


_KINDS: tuple[tuple[Any, Callable[[Any], Convert | None]], ...] = (
    (RECORDS, _record),
    (SEQUENCES, _sequence),
    (inspect.TupleType, _tuple),
    (inspect.DictType, _map),
    (inspect.UnionType, _union),
    (inspect.EnumType, _enum),
    ((inspect.ByteArrayType, inspect.MemoryViewType), _bytes),
    ((inspect.UUIDType, inspect.TimeType, inspect.TimeDeltaType), _text),
)
"""How the kinds of types are converted that Arrow does not take as they are."""

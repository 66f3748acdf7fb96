"""The columns that messages have in a DataFrame, by the type of their values."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, inspect

from ...dsl.errors import UnsupportedError
from ...dsl.serde import type_name
from ...dsl.validation import explain

VALUE = "value"
"""The column of values that are no records."""


class Column(Struct, frozen=True):
    """A column: its name, its type in the words of Spark's SQL, and whether each message needs to have it.

    >>> Column("user", "string")
    Column(name='user', type='string', required=True)
    """

    name: str
    type: str
    required: bool = True


class NoColumn(ValueError):
    """A type for which DataFrames have no column."""


def columns_of(type_: Any) -> tuple[Column, ...]:
    """The columns of a type of values: those of its fields, or one with the name `value` for what is no record.

    Raises NoColumn, which names the field, for a type that Spark has no column for.

    >>> [(column.name, column.type) for column in columns_of(dict[str, list[int]])]
    [('value', 'map<string, array<bigint>>')]
    """
    try:
        info = inspect.type_info(type_)
    except (TypeError, NotImplementedError) as error:
        raise NoColumn(str(error)) from None
    if not isinstance(info, RECORDS):
        return (Column(VALUE, _type(info, VALUE, ()), not _is_optional(info)),)
    return tuple(
        Column(name, _type(field.type, name, (info.cls,)), field.required and not _is_optional(field.type))
        for name, field in _fields(info, "")
    )


def ddl(columns: "tuple[Column, ...]") -> str:
    """The columns as Spark writes a schema.

    >>> ddl(columns_of(int))
    '`value` bigint'
    """
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def quoted(name: str) -> str:
    """A name as SQL writes it.

    >>> quoted("from")
    '`from`'
    """
    return "`" + name.replace("`", "``") + "`"


def is_record(type_: Any) -> bool:
    """Whether values of a type have fields, each of which is a column."""
    return isinstance(inspect.type_info(type_), RECORDS)


RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
"""The kinds of types whose fields are columns."""
SEQUENCES = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.CollectionType,
    inspect.VarTupleType,
)
"""The kinds of types that are arrays of one type."""

_SCALARS: Mapping[type, str] = MappingProxyType(
    {
        inspect.BoolType: "boolean",
        inspect.IntType: "bigint",
        inspect.FloatType: "double",
        inspect.StrType: "string",
        inspect.BytesType: "binary",
        inspect.ByteArrayType: "binary",
        inspect.MemoryViewType: "binary",
        inspect.DateTimeType: "timestamp",
        inspect.DateType: "date",
        inspect.DecimalType: "decimal(38,18)",
        inspect.UUIDType: "string",
        inspect.TimeType: "string",
        inspect.TimeDeltaType: "string",
    }
)

_Path = tuple[type, ...]
"""The classes around a field: one that has a field of itself has no end."""


def _type(info: inspect.Type, name: str, path: _Path) -> str:
    """The type of a field's column."""
    if (scalar := _SCALARS.get(type(info))) is not None:
        return scalar
    for kinds, make in _KINDS:
        if isinstance(info, kinds):
            return make(info, name, path)
    raise NoColumn(f"{name}: {type(info).__name__.removesuffix('Type')}")


def _record(info: Any, name: str, path: _Path) -> str:
    if info.cls in path:
        raise NoColumn(f"{name}: {info.cls.__name__} has a field of itself")
    inner = (
        f"{quoted(key)}: {_type(field.type, f'{name}.{key}', (*path, info.cls))}" for key, field in _fields(info, name)
    )
    return f"struct<{', '.join(inner)}>"


def _fields(info: Any, name: str) -> list[tuple[str, inspect.Field]]:
    where = f"{name}: " if name else ""
    if getattr(info, "array_like", False):
        raise NoColumn(f"{where}{info.cls.__name__} is written as an array")
    if not info.fields:
        raise NoColumn(f"{where}{info.cls.__name__} has no fields")
    return [(field.encode_name, field) for field in info.fields]


def _sequence(info: Any, name: str, path: _Path) -> str:
    return f"array<{_type(info.item_type, f'{name}[]', path)}>"


def _tuple(info: Any, name: str, path: _Path) -> str:
    items = {_type(item, f"{name}[]", path) for item in info.item_types}
    if len(items) != 1:
        raise NoColumn(f"{name}: a tuple of several types")
    return f"array<{items.pop()}>"


def _map(info: Any, name: str, path: _Path) -> str:
    if _type(info.key_type, f"{name} (keys)", path) != "string":
        raise NoColumn(f"{name}: a dict with other keys than text")
    return f"map<string, {_type(info.value_type, f'{name}[]', path)}>"


def _union(info: Any, name: str, path: _Path) -> str:
    left = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    if len(left) != 1:
        raise NoColumn(f"{name}: a union of several types")
    return _type(left[0], name, path)


def _listed(values: set[type], name: str) -> str:
    if values == {str}:
        return "string"
    if values == {int}:
        return "bigint"
    raise NoColumn(f"{name}: values that are neither all text nor all whole numbers")


def _enum(info: Any, name: str, _: _Path) -> str:
    return _listed({type(member.value) for member in info.cls}, name)


def _literal(info: Any, name: str, _: _Path) -> str:
    return _listed({type(value) for value in info.values if value is not None}, name)


_KINDS: tuple[tuple[Any, Callable[[Any, str, _Path], str]], ...] = (
    (RECORDS, _record),
    (SEQUENCES, _sequence),
    (inspect.TupleType, _tuple),
    (inspect.DictType, _map),
    (inspect.UnionType, _union),
    (inspect.EnumType, _enum),
    (inspect.LiteralType, _literal),
)


def _is_optional(info: inspect.Type) -> bool:
    if isinstance(info, inspect.LiteralType):
        return None in info.values
    return isinstance(info, inspect.UnionType) and any(isinstance(one, inspect.NoneType) for one in info.types)


def checked_columns(what: str, type_: Any, remedy: str) -> tuple[Column, ...]:
    """The columns of a type of values. Raises UnsupportedError where it has none."""
    try:
        return columns_of(type_)
    except NoColumn as error:
        wrong = f"{what}: values of {type_name(type_)} have no columns: {error}"
        raise UnsupportedError(explain(wrong, "a type that each column of a DataFrame can hold", remedy)) from None

"""Which Avro schemas fit which Python types, as far as compiled functions support them."""

from datetime import date, datetime, time
from decimal import Decimal
from keyword import iskeyword
from typing import Any
from uuid import UUID

from msgspec import inspect as types


class Unfit(Exception):
    """Compiled functions do not support a schema, a type or a value."""


TYPES: dict[str, Any] = {
    "null": types.NoneType,
    "boolean": types.BoolType,
    "int": types.IntType,
    "long": types.IntType,
    "float": types.FloatType,
    "double": types.FloatType,
    "bytes": types.BytesType,
    "fixed": types.BytesType,
    "string": types.StrType,
    "enum": types.StrType,
    "array": types.ListType,
    "map": types.DictType,
}
"""The Python type of each Avro type."""
LOGICAL: dict[str, Any] = {
    "long-timestamp-millis": types.DateTimeType,
    "long-timestamp-micros": types.DateTimeType,
    "int-date": types.DateType,
    "int-time-millis": types.TimeType,
    "long-time-micros": types.TimeType,
    "bytes-decimal": types.DecimalType,
    "string-uuid": types.UUIDType,
}
CLASSES: dict[Any, Any] = {
    types.DateTimeType: datetime,
    types.DateType: date,
    types.TimeType: time,
    types.DecimalType: Decimal,
    types.UUIDType: UUID,
}


def description_of(type: Any) -> Any:
    """What msgspec says of a type; of None, that any is accepted. Raises Unfit for what msgspec does not know."""
    try:
        return types.AnyType() if type is None else types.type_info(type)
    except (TypeError, NotImplementedError) as error:
        raise Unfit from error


def unfit(*_: Any) -> Any:
    """The function in place of one that could not be compiled."""
    raise Unfit


def fitting_type(type: Any, wanted: Any) -> Any:
    """A type, if it is the Python type of the schema, without conditions of its own, or if any type is accepted."""
    if isinstance(type, types.AnyType):
        return type
    if wanted is None or type.__class__ is not wanted:
        raise Unfit
    plain = wanted(
        **{name: getattr(type, name) for name in ("item_type", "key_type", "value_type") if hasattr(type, name)}
    )
    if type != plain or (wanted is types.DictType and type.key_type != types.StrType()):
        raise Unfit
    return type


def python_class(type: Any) -> Any:
    """The class of the values of a logical type. If there are several and no type is declared, the value decides."""
    return CLASSES[type.__class__] if type.__class__ in CLASSES else unfit()


def optional(branches: list[Any], type: Any) -> tuple[int, Any, Any]:
    """Of an optional value: the index of null, the other schema, and its type."""
    if len(branches) != 2 or "null" not in branches:
        raise Unfit
    null = branches.index("null")
    if isinstance(type, types.AnyType):
        return null, branches[1 - null], type
    if not isinstance(type, types.UnionType) or len(type.types) != 2:
        raise Unfit
    rest = [one for one in type.types if not isinstance(one, types.NoneType)]
    return null, branches[1 - null], rest[0] if len(rest) == 1 else unfit()


def class_of(type: Any) -> Any:
    """The class of a record type, if its objects consist of nothing but their fields."""
    if (
        isinstance(type, types.StructType)
        and type.tag is None
        and not type.array_like
        and not type.forbid_unknown_fields
    ):
        return type.cls
    new: Any = getattr(type.cls, "__new__", None) if isinstance(type, types.DataclassType) else None
    plain = new is object.__new__
    return type.cls if plain and not hasattr(type.cls, "__post_init__") else unfit()


def open_twin(type_: Any) -> Any:
    """A mutable class whose objects can be turned into those of a frozen class."""
    slots = vars(type_).get("__slots__")
    twin: Any = type(type_.__name__, (), {} if slots is None else {"__slots__": slots})
    try:
        twin().__class__ = type_
    except TypeError as error:
        raise Unfit from error
    return twin


def identifier(name: str) -> str:
    """A name, if it can be an attribute name in Python code."""
    return name if name.isidentifier() and not iskeyword(name) else unfit()

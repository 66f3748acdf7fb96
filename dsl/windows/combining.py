"""Which accumulators may be merged before a shuffle: those that are merged with the same result in any grouping, and
take no more room the more messages they hold."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from enum import Enum
from inspect import isclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

Combines = Callable[[Any], bool]
"""Says of an accumulator whether it may be merged with others before a shuffle."""

_SCALARS = (int, bool, NoneType, date, timedelta, UUID)


def any_accumulator(_: Any) -> bool:
    """Whether an accumulator may be merged where its type says so: it may."""
    return True


def whole_number(accumulator: Any) -> bool:
    """Whether an accumulator is a whole number. The sum of floats depends on the order in which they are added."""
    return accumulator.__class__ is int


def whole_sum(accumulator: Any) -> bool:
    """Whether the first part of an accumulator is a whole number."""
    return accumulator[0].__class__ is int


def of_numbers(type_: Any, combines: Combines) -> Combines | None:
    """What `combines` says where an aggregate is of whole numbers for certain; else None."""
    return combines if type_ is int else None


def of_type(type_: Any) -> Combines | None:
    """`any_accumulator` if accumulators of a type have a fixed size, and no floats; else None.

    >>> of_type(tuple[int, int]) is any_accumulator, of_type(list[int]), of_type(float)
    (True, None, None)
    """
    return any_accumulator if _has_fixed_size(type_) else None


def _has_fixed_size(type_: Any, within: tuple[Any, ...] = ()) -> bool:
    if type_ in within:  # a tree
        return False
    origin, parts = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType) or (origin is tuple and Ellipsis not in parts):
        return all(_has_fixed_size(part, within) for part in parts)
    if not isclass(type_):
        return False
    if type_ in _SCALARS or issubclass(type_, Enum):
        return True
    names = _fields_of(type_)
    if names is None:
        return False
    try:
        hints = get_type_hints(type_)
    except NameError:  # names that exist for type checkers alone
        return False
    return all(_has_fixed_size(hints[name], (*within, type_)) for name in names)


def _fields_of(type_: type) -> tuple[str, ...] | None:
    """The names of the fields of a class; None for one that is no Struct, dataclass or NamedTuple."""
    if issubclass(type_, msgspec.Struct):
        return type_.__struct_fields__
    if is_dataclass(type_):
        return tuple(field.name for field in fields(type_))
    return getattr(type_, "_fields", None) if issubclass(type_, tuple) else None

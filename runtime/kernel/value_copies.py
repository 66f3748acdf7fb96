"""Copies of values, so that state and users' functions do not share objects that can be changed."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import fields
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any
from uuid import UUID

from msgspec import structs

UNCHANGING: frozenset[type] = frozenset((int, float, str, bytes, bool, type(None)))
"""Types whose values cannot be changed."""

_MORE_UNCHANGING: tuple[type, ...] = (*UNCHANGING, complex, date, datetime, time, timedelta, timezone, Decimal, UUID)


def own_copy(value: Any) -> Any:
    """A copy that shares nothing that can be changed with `value`; the value itself if nothing of it can be changed.

    >>> own_copy([1, [2]]), own_copy("tea")
    ([1, [2]], 'tea')
    """
    type_ = type(value)
    copy = _COPIES.get(type_)
    if copy is None:
        if len(_COPIES) >= _MOST_KINDS:
            return deepcopy(value)
        copy = _COPIES[type_] = _copy_function(type_)
    return copy(value)


ValueSnapshot = Callable[[Any], Callable[[], Any]]
"""Takes a value that is about to be changed; returns a function that gives the value as it was. It is called once."""


def of_any(value: Any) -> Callable[[], Any]:
    """The `ValueSnapshot` of any value: a copy.

    >>> basket = ["tea"]
    >>> restore = of_any(basket)
    >>> basket[0] = "milk"
    >>> restore()
    ['tea']
    """
    copy = own_copy(value)
    return lambda: copy


def of_unchanging(value: Any) -> Callable[[], Any]:
    """The `ValueSnapshot` of a value that is never changed in place."""
    return lambda: value


def of_growing(value: list[Any] | None) -> Callable[[], Any]:
    """The `ValueSnapshot` of a list that is changed only by appending: its length. A copy of a long list for each
    message would take longer than all other work on the message.

    >>> basket = ["tea"]
    >>> restore = of_growing(basket)
    >>> basket.append("milk")
    >>> restore()
    ['tea']
    """
    length = len(value or ())

    def restore() -> Any:
        if value is not None:
            del value[length:]
        return value

    return restore


def _copy_function(type_: type) -> Callable[[Any], Any]:
    """A function that copies values of a class which is not a builtin collection."""
    if issubclass(type_, Enum):
        return _same
    names = _frozen_fields(type_)
    if names is None:
        return deepcopy
    if not names:
        return _same
    held = attrgetter(names[0], *names)  # several names, so that it returns a tuple

    def copy(value: Any) -> Any:
        parts = held(value)
        return value if _unchanging(parts) or all(own_copy(part) is part for part in parts) else deepcopy(value)

    return copy


def _frozen_fields(type_: type) -> list[str] | None:
    """The fields of a frozen class; None for any other class."""
    if "__dataclass_params__" in vars(type_) and vars(type_)["__dataclass_params__"].frozen:
        return [field.name for field in fields(type_)]
    config = getattr(type_, "__struct_config__", None)
    return [field.name for field in structs.fields(type_)] if config is not None and config.frozen else None


def _same(value: Any) -> Any:
    return value


def _unchanging(values: Iterable[Any]) -> bool:
    return UNCHANGING.issuperset(map(type, values))


def _list(value: list[Any]) -> list[Any]:
    return value.copy() if _unchanging(value) else [own_copy(item) for item in value]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if _unchanging(value):
        return value
    copied = tuple([own_copy(item) for item in value])
    same = all(one is other for one, other in zip(copied, value, strict=True))
    return value if same else copied


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if _unchanging(value) and _unchanging(value.values()):
        return value.copy()
    return {own_copy(key): own_copy(item) for key, item in value.items()}


# What can be changed may be a key or a member all the same, if it hashes by what it is and not by what it holds.


def _set(value: set[Any]) -> set[Any]:
    return value.copy() if _unchanging(value) else {own_copy(item) for item in value}


def _frozenset(value: frozenset[Any]) -> frozenset[Any]:
    if _unchanging(value):
        return value
    pairs = [(item, own_copy(item)) for item in value]
    return value if all(one is other for one, other in pairs) else frozenset(copied for _, copied in pairs)


_COPIES: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_MORE_UNCHANGING, _same),
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _frozenset,
    bytearray: bytearray.copy,
}
# Bounded, since a program may make classes as it runs, which would stay in memory.
_MOST_KINDS = 1000
"""The most classes whose copy functions are remembered: more than pipelines have."""

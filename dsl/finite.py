"""NaN and the infinities, which JSON does not have: msgspec would write them as null."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

_pack = msgspec.msgpack.Encoder().encode
_has_suspect = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
"""Finds numbers that are not finite in MessagePack, and perhaps what only looks so."""


class NotFinite(ValueError):
    """A value holds NaN or an infinity. The text names the place; `expected` and `remedy` say the rest.

    >>> issubclass(NotFinite, ValueError)
    True
    """

    expected = "finite numbers"
    remedy = "write None for what is not known, or take value=msgpack(...) or FLOAT64, which can hold it"


def json_encoder(kind: Any) -> Callable[[Any], bytes]:
    """What writes values of a type as JSON. Raises NotFinite for numbers that JSON does not have.

    >>> json_encoder(list[float])([0.5, float("nan")])
    Traceback (most recent call last):
        ...
    fluvial.dsl.finite.NotFinite: JSON has no nan, which is the value at [1]
    """
    plain: Callable[[Any], bytes] = msgspec.json.Encoder().encode
    if not may_hold_floats(kind):
        return plain

    def encode(value: Any) -> bytes:
        data = plain(value)
        # Nearly all values have no null; for those that do, MessagePack tells sooner than a walk through them.
        if b"null" in data and _is_suspect(value):
            check_finite(value)
        return data

    return encode


def check_finite(value: Any) -> None:
    """Raise NotFinite, with the place, for a value that holds NaN or an infinity."""
    for place, number in _not_finite(msgspec.to_builtins(value, str_keys=True), ""):
        where = f", which is the value at {place}" if place else ""
        raise NotFinite(f"JSON has no {number}{where}")


def spelled(value: Any) -> Any:
    """Builtin values for people to read: numbers that JSON does not have are the words for them.

    >>> spelled({"price": float("-inf"), "sizes": [1.5]})
    {'price': '-Infinity', 'sizes': [1.5]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: spelled(part) for key, part in value.items()}
    return [spelled(part) for part in value] if isinstance(value, list | tuple) else value


def may_hold_floats(kind: Any) -> bool:
    """Whether a value of a type may have floats in it, as far as the type tells.

    >>> may_hold_floats(dict[str, int | None]), may_hold_floats(list[dict[str, float]])
    (False, True)
    """
    try:
        return _floats_in(inspect.type_info(kind), set())
    except (TypeError, NotImplementedError):
        return True


def _is_suspect(value: Any) -> bool:
    try:
        return _has_suspect(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):  # MessagePack holds less than JSON, such as smaller integers
        return True


_UNKNOWN = (inspect.FloatType, inspect.AnyType, inspect.CustomType, inspect.RawType, inspect.ExtType)
_RECORDS = (inspect.StructType, inspect.TypedDictType, inspect.DataclassType, inspect.NamedTupleType)


def _floats_in(info: inspect.Type, seen: set[int]) -> bool:
    """Whether there are floats in a type; `seen` are the records on the way, by id, which may hold themselves."""
    if isinstance(info, _UNKNOWN):
        return True
    if isinstance(info, _RECORDS):
        if id(info) in seen:
            return False
        seen.add(id(info))
        return any(_floats_in(field.type, seen) for field in info.fields)
    return any(_floats_in(part, seen) for part in _parts(info))


def _parts(info: inspect.Type) -> tuple[inspect.Type, ...]:
    match info:
        case inspect.Metadata():
            return (info.type,)
        case inspect.UnionType():
            return info.types
        case inspect.DictType():
            return (info.key_type, info.value_type)
        case inspect.TupleType():
            return info.item_types
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            return (info.item_type,)
        case _:
            return ()


def _not_finite(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """The numbers in builtin values that are not finite, each with where it is."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _not_finite(part, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _not_finite(part, f"{place}[{index}]")

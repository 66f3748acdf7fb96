"""NaN and the infinities, which JSON does not have: msgspec would write them as null."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

_pack = msgspec.msgpack.Encoder().encode
_has_suspect = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
"""Finds numbers that are not finite in MessagePack, and perhaps what only looks so."""


class NotFinite(ValueError):
    """A value holds NaN or an infinity. The text names the path to it; `expected` and `remedy` say the rest.

    >>> issubclass(NotFinite, ValueError)
    True
    """

    expected = "finite numbers"
    remedy = "write None for what is not known, or take value=msgpack(...) or FLOAT64, which can hold it"


def json_encoder() -> Callable[[Any], bytes]:
    """What writes values as JSON. Raises NotFinite for numbers that JSON does not have.

    >>> json_encoder()([0.5, float("nan")])
    Traceback (most recent call last):
        ...
    fluvial.dsl.finite.NotFinite: JSON has no nan, which is the value at [1]
    """
    plain: Callable[[Any], bytes] = msgspec.json.Encoder().encode
    null = b"null"

    def encode(value: Any) -> bytes:
        data = plain(value)
        # The type is not asked: nothing makes a value of type int hold one, and msgspec encodes what is there. Nearly
        # all values have no null, which partition() finds out in a third of the time of `in`; for those that have one,
        # MessagePack tells sooner than a walk through them.
        if data.partition(null)[1] and _is_suspect(value):
            check_finite(value)
        return data

    return encode


def check_finite(value: Any) -> None:
    """Raise NotFinite, with the path to it, for a value that holds NaN or an infinity."""
    for path, number in _not_finite(msgspec.to_builtins(value, str_keys=True), ""):
        where = f", which is the value at {path}" if path else ""
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


def _is_suspect(value: Any) -> bool:
    try:
        return _has_suspect(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):  # MessagePack holds less than JSON, such as smaller integers
        return True


def _not_finite(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """The numbers in builtin values that are not finite, each with where it is."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _not_finite(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _not_finite(part, f"{path}[{index}]")

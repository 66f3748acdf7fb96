"""The types of the messages that flow from operator to operator."""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from ..dsl.annotations import UNKNOWN, returned
from ..dsl.serde import Serde, type_name


@dataclass(frozen=True, slots=True)
class Flow:
    """What an operator emits: `key` a type or Serde, None without key; `value` a type or Serde, or UNKNOWN."""

    key: Any
    value: Any


def plain(kind: Any) -> Any:
    """The type behind a type or Serde."""
    return kind.type if isinstance(kind, Serde) else kind


def shown(kind: Any) -> str | None:
    """The name of a type or Serde; None for UNKNOWN and for no type."""
    if kind is UNKNOWN or kind is None:
        return None
    return kind.name if isinstance(kind, Serde) else type_name(kind)


def without_none(kind: Any) -> Any:
    """A type without None: what is left of `User | None`."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    left = [part for part in get_args(kind) if part is not NoneType]
    return reduce(or_, left) if left else NoneType


def as_given(_: Any, inputs: list[Flow]) -> Flow:
    """What the first input emits."""
    return inputs[0]


def of_function(operator: Any, inputs: list[Flow]) -> Flow:
    """What the operator's function returns, under the same key."""
    return Flow(inputs[0].key, returned(operator.fn))

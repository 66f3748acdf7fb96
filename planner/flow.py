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


def plain(type_: Any) -> Any:
    """The type of values, where a type or a Serde for it may be declared."""
    return type_.type if isinstance(type_, Serde) else type_


def known_name(type_: Any) -> str | None:
    """The name of a type or Serde; None for UNKNOWN and for no type."""
    if type_ is UNKNOWN or type_ is None:
        return None
    return type_.name if isinstance(type_, Serde) else type_name(type_)


def without_none(type_: Any) -> Any:
    """A type without None: what is left of `User | None`."""
    if get_origin(type_) not in (Union, UnionType):
        return type_
    left = [part for part in get_args(type_) if part is not NoneType]
    return reduce(or_, left) if left else NoneType


def as_given(_: Any, inputs: list[Flow]) -> Flow:
    """The types of the first input, unchanged: the `flow` of kinds that pass messages on."""
    return inputs[0]


def of_function(operator: Any, inputs: list[Flow]) -> Flow:
    """What the operator's function returns, under the key of the first input."""
    return Flow(inputs[0].key, returned(operator.fn))

"""What annotations and declarations say of types: the oracle's part that reads them."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from inspect import Parameter, isclass
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from fluvial.dsl import KeyedProcessor, Serde, Tagged
from oracle.wire import UNKNOWN


class Types(NamedTuple):
    """The key and value that an operator emits: each a type or Serde; None and UNKNOWN if nothing tells."""

    key: Any
    value: Any


def returned(fn: Callable[..., Any]) -> Any:
    """What a function is annotated to return; a class makes its own instances."""
    if isclass(fn) or get_origin(fn) is not None:
        return fn
    try:
        return get_type_hints(fn).get("return", UNKNOWN)
    except (AttributeError, NameError, TypeError):
        return UNKNOWN


def item(kind: Any) -> Any:
    """The one type of the items of `Iterable[int]`, `tuple[int, ...]` and their like."""
    origin, arguments = get_origin(kind), set(get_args(kind)) - {Ellipsis}
    return arguments.pop() if len(arguments) == 1 and isclass(origin) and issubclass(origin, Iterable) else UNKNOWN


def emitted_by(processor: KeyedProcessor[Any, Any, Any]) -> Any:
    """What a processor emits without a tag: as its class tells, else as its method is annotated."""
    for kind in type(processor).__mro__:
        for base in vars(kind).get("__orig_bases__", ()):
            if get_origin(base) is KeyedProcessor and not isinstance(get_args(base)[2], TypeVar):
                declared = get_args(base)[2]
                return UNKNOWN if declared is Any else declared
    return without(Tagged, item(without(NoneType, returned(processor.on_message))))


def without(unwanted: type, kind: Any) -> Any:
    """What is left of a union without the members of a type."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    left = [member for member in members if (get_origin(member) or member) is not unwanted]
    return reduce(lambda one, other: one | other, left) if left else UNKNOWN


def shared(kinds: Sequence[Any], otherwise: Any) -> Any:
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else otherwise


def plain(kind: Any) -> Any:
    """The type of the values that a type or Serde stands for."""
    return kind.type if isinstance(kind, Serde) else Parameter.empty if kind is UNKNOWN else kind

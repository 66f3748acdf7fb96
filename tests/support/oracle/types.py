"""Which types flow where, as annotations and declarations tell: the oracle's part that knows types."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import reduce
from inspect import Parameter, isclass
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from fluvial.dsl import KeyedProcessor, Message, Pane, Pipeline, Serde, Tagged
from fluvial.dsl import operators as ops
from oracle.wire import UNKNOWN


class Types(NamedTuple):
    """The key and value that an operator emits: each a type or Serde; None and UNKNOWN if nothing tells."""

    key: Any
    value: Any


def types_of(pipeline: Pipeline) -> dict[str, Types]:
    """The types of what each operator emits, by its id."""
    known: dict[str, Types] = {}
    for operator in pipeline.operators:
        known[operator.id] = _types_of(operator, [known[id] for id in operator.inputs])
    return known


def _types_of(operator: ops.Operator, inputs: Sequence[Types]) -> Types:
    match operator:
        case ops.Source() | ops.TableOf():
            return Types(operator.key, operator.value)
        case ops.PartitionBy():
            return Types(operator.key, inputs[0].value if operator.value is None else operator.value)
        case ops.Broadcast():
            return Types(None, inputs[0].value if operator.value is None else operator.value)
        case ops.MapMessages():
            message = _returned(operator.fn)
            return Types(None, get_args(message)[0] if get_origin(message) is Message else UNKNOWN)
        case ops.Merge():
            return Types(
                _shared([types.key for types in inputs], None), _shared([types.value for types in inputs], UNKNOWN)
            )
        case _:
            return Types(inputs[0].key, _value_of(operator, inputs[0]))


def _value_of(operator: ops.Operator, given: Types) -> Any:
    """The type of the values of an operator that leaves keys as they are."""
    match operator:
        case ops.Map() | ops.JoinStreams() | ops.JoinTable():
            return _returned(operator.fn)
        case ops.JoinTables():
            return _without(NoneType, _returned(operator.fn))
        case ops.FlatMap():
            return _item(_returned(operator.fn))
        case ops.JoinRemote():
            return _returned(operator.joined)
        case ops.AsyncFlatMap():
            result = _returned(operator.fn)
            return _item(get_args(result)[-1] if get_origin(result) in (Awaitable, Coroutine) else result)
        case ops.WindowBy():
            value = operator.aggregate.gives(_plain(given.value))
            return Pane[_plain(given.key), Any if value in (UNKNOWN, Parameter.empty) else value]  # type: ignore[misc]
        case ops.Process():
            return _emitted(operator.processor)
        case ops.Side():
            return operator.tag.kind
        case _:
            return given.value


def _returned(fn: Callable[..., Any]) -> Any:
    """What a function is annotated to return; a class makes its own instances."""
    if isclass(fn) or get_origin(fn) is not None:
        return fn
    try:
        return get_type_hints(fn).get("return", UNKNOWN)
    except (AttributeError, NameError, TypeError):
        return UNKNOWN


def _item(kind: Any) -> Any:
    """The one type of the items of `Iterable[int]`, `tuple[int, ...]` and their like."""
    origin, arguments = get_origin(kind), set(get_args(kind)) - {Ellipsis}
    return arguments.pop() if len(arguments) == 1 and isclass(origin) and issubclass(origin, Iterable) else UNKNOWN


def _emitted(processor: KeyedProcessor[Any, Any, Any]) -> Any:
    """What a processor emits without a tag: as its class tells, else as its method is annotated."""
    for kind in type(processor).__mro__:
        for base in vars(kind).get("__orig_bases__", ()):
            if get_origin(base) is KeyedProcessor and not isinstance(get_args(base)[2], TypeVar):
                declared = get_args(base)[2]
                return UNKNOWN if declared is Any else declared
    return _without(Tagged, _item(_without(NoneType, _returned(processor.on_message))))


def _without(unwanted: type, kind: Any) -> Any:
    """What is left of a union without the members of a type."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    left = [member for member in members if (get_origin(member) or member) is not unwanted]
    return reduce(lambda one, other: one | other, left) if left else UNKNOWN


def _shared(kinds: Sequence[Any], otherwise: Any) -> Any:
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else otherwise


def _plain(kind: Any) -> Any:
    """The type of the values that a type or Serde stands for."""
    return kind.type if isinstance(kind, Serde) else Parameter.empty if kind is UNKNOWN else kind

"""The types that an operator of each kind emits, by the annotations of its functions and the types of its inputs."""

from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN, element, message_value, returned
from ..dsl.message import Pane
from ..dsl.processor import KeyedProcessor, Tagged
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


def _awaited(kind: Any) -> Any:
    """The type that awaiting gives; an `async def` is annotated with it already."""
    return get_args(kind)[-1] if get_origin(kind) in (Awaitable, Coroutine) else kind


def of_source(operator: ops.Source, _: list[Flow]) -> Flow:
    """The declared types."""
    return Flow(operator.key, operator.value)


def of_table(operator: ops.TableOf, _: list[Flow]) -> Flow:
    """The declared types."""
    return Flow(operator.key, operator.value)


def as_given(_: Any, inputs: list[Flow]) -> Flow:
    """What the first input emits."""
    return inputs[0]


def of_function(operator: Any, inputs: list[Flow]) -> Flow:
    """What the operator's function returns, under the same key."""
    return Flow(inputs[0].key, returned(operator.fn))


def of_items(operator: ops.FlatMap, inputs: list[Flow]) -> Flow:
    """The items of what the function returns."""
    return Flow(inputs[0].key, element(returned(operator.fn)))


def of_awaited_items(operator: ops.AsyncFlatMap, inputs: list[Flow]) -> Flow:
    """The items of what the function's call gives when it is awaited."""
    return Flow(inputs[0].key, element(_awaited(returned(operator.fn))))


def of_remote_join(operator: ops.JoinRemote, inputs: list[Flow]) -> Flow:
    """What the function returns that is given a value and its row."""
    return Flow(inputs[0].key, returned(operator.joined))


def of_table_join(operator: ops.JoinTables, inputs: list[Flow]) -> Flow:
    """What the function returns but None, which deletes a row."""
    return Flow(inputs[0].key, without_none(returned(operator.fn)))


def of_messages(operator: ops.MapMessages, _: list[Flow]) -> Flow:
    """The values of the messages that the function returns; their keys are of no known type."""
    return Flow(None, message_value(returned(operator.fn)))


def of_merge(_: ops.Merge, inputs: list[Flow]) -> Flow:
    """The types that all inputs share."""
    first = inputs[0]
    same_key = all(flow.key == first.key for flow in inputs)
    same_value = all(flow.value == first.value for flow in inputs)
    return Flow(first.key if same_key else None, first.value if same_value else UNKNOWN)


def of_window(operator: ops.WindowBy, inputs: list[Flow]) -> Flow:
    """Panes of what the aggregate gives."""
    key, value = inputs[0].key, plain(inputs[0].value)
    gives = operator.aggregate.gives(value)
    return Flow(key, Pane[plain(key), Any if gives is UNKNOWN else gives])  # type: ignore[misc]


def of_partition_by(operator: ops.PartitionBy, inputs: list[Flow]) -> Flow:
    """The declared types; values as they are given where none is declared."""
    return Flow(operator.key, _declared(operator.value, inputs))


def of_broadcast(operator: ops.Broadcast, inputs: list[Flow]) -> Flow:
    """The same, without key."""
    return Flow(None, _declared(operator.value, inputs))


def _declared(value: Any, inputs: list[Flow]) -> Any:
    return inputs[0].value if value is None else value


def of_processor(operator: ops.Process, inputs: list[Flow]) -> Flow:
    """What the processor emits without a tag."""
    return Flow(inputs[0].key, _emitted(operator.processor))


def of_side(operator: ops.Side, inputs: list[Flow]) -> Flow:
    """What its tag declares."""
    return Flow(inputs[0].key, operator.tag.kind)


def _emitted(processor: KeyedProcessor[Any, Any, Any]) -> Any:
    """The type of what a processor emits without a tag: as its class says, else as its method is annotated."""
    arguments = _arguments(type(processor), KeyedProcessor)
    if len(arguments) == 3 and not isinstance(arguments[2], TypeVar):
        return UNKNOWN if arguments[2] is Any else arguments[2]
    kinds = [kind for kind in _choices(returned(processor.on_message)) if kind is not NoneType]
    return _untagged(element(kinds[0])) if len(kinds) == 1 else UNKNOWN


def _untagged(kind: Any) -> Any:
    kinds = [one for one in _choices(kind) if (get_origin(one) or one) is not Tagged]
    return Union[tuple(kinds)] if kinds else UNKNOWN  # noqa: UP007 - of as many as there are


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _arguments(kind: Any, base: type) -> tuple[Any, ...]:
    """What a class, or one with arguments, gives for the parameters of a base; () if it does not say."""
    origin = get_origin(kind) or kind
    if origin is base:
        return get_args(kind)
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    bases = getattr(origin, "__orig_bases__", ()) if "__orig_bases__" in vars(origin) else origin.__bases__
    for one in bases:
        if issubclass(get_origin(one) or one, base):
            return tuple(given.get(argument, argument) for argument in _arguments(one, base))
    return ()

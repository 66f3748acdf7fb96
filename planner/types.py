"""Types along the graph: what is known of the key and value that each operator emits."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN, element, message_value, returned
from ..dsl.message import Pane
from ..dsl.pipeline import Pipeline
from ..dsl.processing import KeyedProcessor, Tagged
from ..dsl.serde import Serde, type_name


@dataclass(frozen=True, slots=True)
class Flow:
    """What an operator emits: `key` a type or Serde, None without key; `value` a type or Serde, or UNKNOWN."""

    key: Any
    value: Any


def flows(pipeline: Pipeline) -> dict[str, Flow]:
    """The flow out of each operator, by its id."""
    known: dict[str, Flow] = {}
    for operator in pipeline.operators:
        known[operator.id] = _FLOWS[type(operator)](operator, [known[source] for source in operator.inputs])
    return known


_PASSING = (ops.Filter, ops.Merge, ops.Split, ops.Branch, ops.PutTo, ops.PutRemote, ops.SinkTo)
"""Operators whose values are those that they are given."""


def typed_by(pipeline: Pipeline, operator: ops.Operator) -> tuple[ops.Operator, ...]:
    """The operators that declare the type of the values that an operator emits or writes: itself, or some before it."""
    found: dict[str, ops.Operator] = {}
    rest = [operator]
    while rest:
        one = rest.pop()
        passes = isinstance(one, ops.Border | ops.SendTo) and one.value is None
        if passes or isinstance(one, _PASSING):
            rest += [pipeline.operator(source) for source in reversed(one.inputs)]
        else:
            found[one.id] = one
    return tuple(found.values())


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


def _merge(_: Any, inputs: list[Flow]) -> Flow:
    first = inputs[0]
    same_key = all(flow.key == first.key for flow in inputs)
    same_value = all(flow.value == first.value for flow in inputs)
    return Flow(first.key if same_key else None, first.value if same_value else UNKNOWN)


def _window(operator: ops.WindowBy, inputs: list[Flow]) -> Flow:
    key, value = inputs[0].key, plain(inputs[0].value)
    gives = operator.aggregate.gives(value)
    return Flow(key, Pane[plain(key), Any if gives is UNKNOWN else gives])  # type: ignore[misc]


def _partition_by(operator: ops.PartitionBy, inputs: list[Flow]) -> Flow:
    return Flow(operator.key, inputs[0].value if operator.value is None else operator.value)


def _emitted(processor: KeyedProcessor[Any, Any, Any]) -> Any:
    """The type of what a processor emits without a tag: as its class says, else as its method is annotated."""
    told = _arguments(type(processor), KeyedProcessor)
    if len(told) == 3 and not isinstance(told[2], TypeVar):
        return UNKNOWN if told[2] is Any else told[2]
    kinds = [kind for kind in _choices(returned(processor.on_message)) if kind is not NoneType]
    return _untagged(element(kinds[0])) if len(kinds) == 1 else UNKNOWN


def _untagged(kind: Any) -> Any:
    found = [one for one in _choices(kind) if (get_origin(one) or one) is not Tagged]
    return Union[tuple(found)] if found else UNKNOWN  # noqa: UP007 - of as many as there are


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


_FLOWS: Mapping[type[ops.Operator], Callable[[Any, list[Flow]], Flow]] = {
    ops.Source: lambda op, _: Flow(op.key, op.value),
    ops.Map: lambda op, inputs: Flow(inputs[0].key, returned(op.fn)),
    ops.Filter: lambda _, inputs: inputs[0],
    ops.FlatMap: lambda op, inputs: Flow(inputs[0].key, element(returned(op.fn))),
    ops.AsyncFlatMap: lambda op, inputs: Flow(inputs[0].key, element(_awaited(returned(op.fn)))),
    ops.MapMessages: lambda op, _: Flow(None, message_value(returned(op.fn))),
    ops.Merge: _merge,
    ops.PartitionBy: _partition_by,
    ops.Broadcast: lambda op, inputs: Flow(None, inputs[0].value if op.value is None else op.value),
    ops.WindowBy: _window,
    ops.JoinStreams: lambda op, inputs: Flow(inputs[0].key, returned(op.fn)),
    ops.TableOf: lambda op, _: Flow(op.key, op.value),
    ops.JoinTable: lambda op, inputs: Flow(inputs[0].key, returned(op.fn)),
    ops.JoinTables: lambda op, inputs: Flow(inputs[0].key, without_none(returned(op.fn))),
    ops.PutTo: lambda _, inputs: inputs[0],
    ops.JoinRemote: lambda op, inputs: Flow(inputs[0].key, returned(op.joined)),
    ops.PutRemote: lambda _, inputs: inputs[0],
    ops.Split: lambda _, inputs: inputs[0],
    ops.Branch: lambda _, inputs: inputs[0],
    ops.Process: lambda op, inputs: Flow(inputs[0].key, _emitted(op.processor)),
    ops.Side: lambda op, inputs: Flow(inputs[0].key, op.tag.kind),
    ops.SendTo: lambda _, inputs: inputs[0],
    ops.SinkTo: lambda _, inputs: inputs[0],
}

"""Sources, and operators that look at one message or value at a time."""

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.message import Record
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects, OracleKind, passes_on, takes_nothing
from oracle.types import Types, item, returned, shared
from oracle.wire import UNKNOWN, decode, decode_foreign_key


def with_value(message: Message[Any], value: Any) -> Message[Any]:
    """The message with another value."""
    return Message(message.key, value, message.timestamp, message.headers)


def _read(source: ops.Source, _: Types, record: Record) -> Message[Any]:
    key, data, timestamp, headers = record
    value = None if data is None else decode(source.value, data)
    known = key if source.key is None or key is None else decode_foreign_key(source.key, key)
    return Message(known, value, timestamp if source.timestamp is None else source.timestamp(value), headers)


def _map(effects: Effects, operator: ops.Map, message: Message[Any], _: int) -> None:
    effects.emit(operator, with_value(message, operator.fn(message.value)))


def _filter(effects: Effects, operator: ops.Filter, message: Message[Any], _: int) -> None:
    if operator.fn(message.value):
        effects.emit(operator, message)


def _flat_map(effects: Effects, operator: ops.FlatMap, message: Message[Any], _: int) -> None:
    for one in list(operator.fn(message.value)):
        effects.emit(operator, with_value(message, one))


def _map_messages(effects: Effects, operator: ops.MapMessages, message: Message[Any], _: int) -> None:
    effects.emit(operator, operator.fn(message))


def _split(effects: Effects, operator: ops.Split, message: Message[Any], _: int) -> None:
    holding = (index for index, holds in enumerate(operator.predicates) if holds(message.value))
    effects.emit(operator, message, output=next(holding, len(operator.predicates)))


def _types_of_messages(operator: ops.MapMessages, _: object) -> Types:
    message = returned(operator.fn)
    return Types(None, get_args(message)[0] if get_origin(message) is Message else UNKNOWN)


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.Source: OracleKind(take=takes_nothing, types=lambda op, _: Types(op.key, op.value), read=_read),
    ops.Map: OracleKind(take=_map, types=lambda op, inputs: Types(inputs[0].key, returned(op.fn))),
    ops.Filter: OracleKind(take=_filter),
    ops.FlatMap: OracleKind(take=_flat_map, types=lambda op, inputs: Types(inputs[0].key, item(returned(op.fn)))),
    ops.MapMessages: OracleKind(take=_map_messages, types=_types_of_messages),
    ops.Merge: OracleKind(
        take=passes_on,
        types=lambda _, inputs: Types(
            shared([types.key for types in inputs], None), shared([types.value for types in inputs], UNKNOWN)
        ),
    ),
    ops.Split: OracleKind(take=_split),
    ops.Branch: OracleKind(take=passes_on, output=lambda op: op.index),
}

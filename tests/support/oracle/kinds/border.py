"""Operators that write an intermediate stream, which the next stage reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.message import Record
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects, OracleKind
from oracle.types import Types
from oracle.wire import decode, decode_key, encode_declared_key


def _partition_by(effects: Effects, operator: ops.PartitionBy, message: Message[Any], _: int) -> None:
    key = encode_declared_key(operator.fn(message.value), operator.key)
    effects.cross(operator, effects.encoded(operator, key, message))


def _broadcast(effects: Effects, operator: ops.Broadcast, message: Message[Any], _: int) -> None:
    record = effects.encoded(operator, effects.key_bytes(operator, message.key), message)
    for _ in range(effects.tasks(operator)):
        effects.cross(operator, record)


def _read_keyed(border: ops.PartitionBy, types: Types, record: Record) -> Message[Any]:
    key, data, timestamp, headers = record
    known = None if key is None else decode_key(border.key, key)
    return Message(known, None if data is None else decode(types.value, data), timestamp, headers)


def _read_broadcast(_: ops.Broadcast, types: Types, record: Record) -> Message[Any]:
    """Keys stay bytes: no operator behind a broadcast uses them."""
    key, data, timestamp, headers = record
    return Message(key, None if data is None else decode(types.value, data), timestamp, headers)


def _value(operator: ops.PartitionBy | ops.Broadcast, inputs: Sequence[Types]) -> Any:
    return inputs[0].value if operator.value is None else operator.value


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.PartitionBy: OracleKind(
        take=_partition_by, types=lambda op, inputs: Types(op.key, _value(op, inputs)), read=_read_keyed
    ),
    ops.Broadcast: OracleKind(
        take=_broadcast, types=lambda op, inputs: Types(None, _value(op, inputs)), read=_read_broadcast
    ),
}

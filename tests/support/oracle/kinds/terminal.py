"""Operators that write messages to streams and sinks."""

from collections.abc import Mapping
from typing import Any

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects, OracleKind
from oracle.wire import encode_key


def _send_to(effects: Effects, operator: ops.SendTo, message: Message[Any], _: int) -> None:
    # A key that a function gives is of no declared type, whatever type of key the stream has.
    own = effects.key_bytes(operator, message.key)
    key = own if operator.key is None else encode_key(operator.key(message.value))
    effects.write(operator.stream, effects.encoded(operator, key, message, operator.value))


def _sink_to(effects: Effects, operator: ops.SinkTo, message: Message[Any], _: int) -> None:
    key = effects.key_bytes(operator, message.key)
    effects.write(f"sink:{operator.id}", effects.encoded(operator, key, message))


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.SendTo: OracleKind(take=_send_to),
    ops.SinkTo: OracleKind(take=_sink_to),
}

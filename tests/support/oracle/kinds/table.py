"""Tables, and the operators that fill them."""

from collections.abc import Mapping
from typing import Any

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.kinds.keeping import key_of_input
from oracle.kinds.row import Effects, OracleKind
from oracle.outputs import OutputMessage
from oracle.types import Types
from oracle.wire import UNKNOWN, encode


def _change(effects: Effects, operator: ops.TableOf, message: Message[Any], _: int) -> None:
    """Change a row; a change of the table follows, unless a row that is not there was deleted."""
    key = effects.key_bytes(operator, message.key)
    changes = message.value is not None or effects.tables.row(operator.id, key) is not None
    effects.tables.put(operator.id, key, message.value)
    if key is not None and changes:
        effects.follow(operator, message.key, message.timestamp, lambda: effects.emit(operator, message))


def _put(effects: Effects, operator: ops.PutTo, message: Message[Any], _: int) -> None:
    effects.put(operator.table, effects.key_bytes(operator, message.key), message.value)


def _put_remote(effects: Effects, operator: ops.PutRemote, message: Message[Any], _: int) -> None:
    key = key_of_input(effects, operator, message)
    if key is None:
        raise ValueError("a message without key cannot be the row of one")
    row = None if message.value is None else encode(UNKNOWN, message.value)
    effects.write(f"remote:{operator.table.name}", OutputMessage(key, row, 0, ()))


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.TableOf: OracleKind(take=_change, types=lambda op, _: Types(op.key, op.value)),
    ops.PutTo: OracleKind(take=_put),
    ops.PutRemote: OracleKind(take=_put_remote),
}

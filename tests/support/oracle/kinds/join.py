"""Joins of streams and tables."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.joins import Joined, KeptRows
from oracle.kinds.keeping import keep, key_of_input
from oracle.kinds.row import Effects, KeptState, OracleKind
from oracle.kinds.stateless import with_value
from oracle.types import Types, returned, without


def _fire(effects: Effects, operator: ops.JoinStreams, due: Joined) -> None:
    state = effects.states[operator.id]
    assert isinstance(state, KeptRows)
    effects.emit(operator, Message(due.key, state.value_of(due), due.timestamp, due.headers))


def _delay(operator: ops.JoinStreams) -> int:
    """A row without a partner is emitted so much later than its time."""
    return 0 if operator.how == "inner" else operator.within


def _join_table(effects: Effects, operator: ops.JoinTable, message: Message[Any], _: int) -> None:
    row = effects.tables.row(operator.uses_table, key_of_input(effects, operator, message))
    if row is not None or operator.how == "left":
        effects.emit(operator, with_value(message, operator.fn(message.value, row)))


def _join_tables(effects: Effects, operator: ops.JoinTables, _: Message[Any], __: int) -> None:
    assert not effects.is_read(operator), "the oracle knows no changes of joined tables"


def _join_remote(effects: Effects, operator: ops.JoinRemote, message: Message[Any], _: int) -> None:
    row = effects.calls.row(operator, message.key)
    if row is not None or operator.how == "left":
        effects.emit(operator, with_value(message, operator.joined(message.value, row)))


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.JoinStreams: OracleKind(
        take=keep,
        types=lambda op, inputs: Types(inputs[0].key, returned(op.fn)),
        state=KeptState(make=lambda op, inputs, _: KeptRows(op, tuple(types.value for types in inputs)), fire=_fire),
        delay=_delay,
    ),
    ops.JoinTable: OracleKind(take=_join_table, types=lambda op, inputs: Types(inputs[0].key, returned(op.fn))),
    ops.JoinTables: OracleKind(
        take=_join_tables, types=lambda op, inputs: Types(inputs[0].key, without(NoneType, returned(op.fn)))
    ),
    ops.JoinRemote: OracleKind(take=_join_remote, types=lambda op, inputs: Types(inputs[0].key, returned(op.joined))),
}

"""Deduplication."""

from collections.abc import Mapping

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.deduplication import KeptTimes
from oracle.kinds.keeping import keep
from oracle.kinds.row import Effects, KeptState, OracleKind
from oracle.processing import Emitted


def _fire(effects: Effects, operator: ops.Deduplicate, due: Emitted) -> None:
    effects.emit(operator, Message(due.key, due.value, due.timestamp, due.headers))


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.Deduplicate: OracleKind(take=keep, state=KeptState(make=lambda op, *_: KeptTimes(op), fire=_fire)),
}

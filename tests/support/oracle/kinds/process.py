"""Processors and their side outputs."""

from collections.abc import Mapping

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.kinds.keeping import keep
from oracle.kinds.row import Effects, KeptState, OracleKind, passes_on
from oracle.processing import DueTimer, Emitted, KeptProcess
from oracle.types import Types, emitted_by


def _fire(effects: Effects, operator: ops.Process, due: DueTimer | Emitted) -> None:
    """Emit what the processor emitted, or let it handle a timer: what it then emits follows, each on its own."""
    if isinstance(due, Emitted):
        message = Message(due.key, due.value, due.timestamp, due.headers)
        effects.emit(operator, message, output=due.tag)
        return
    state = effects.states[operator.id]
    assert isinstance(state, KeptProcess)
    for one in state.fire(due):
        effects.fire(operator, one)


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.Process: OracleKind(
        take=keep,
        types=lambda op, inputs: Types(inputs[0].key, emitted_by(op.processor)),
        state=KeptState(make=lambda op, *_: KeptProcess(op), fire=_fire),
    ),
    ops.Side: OracleKind(
        take=passes_on,
        types=lambda op, inputs: Types(inputs[0].key, op.tag.type),
        output=lambda op: op.tag.name,
    ),
}

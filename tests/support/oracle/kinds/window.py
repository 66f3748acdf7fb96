"""Windows."""

import math
from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any

from fluvial.dsl import Message, Pane
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from fluvial.dsl.windows.assigners import Unbounded
from oracle.kinds.keeping import keep_in_time, key_of_input
from oracle.kinds.row import Effects, KeptState, OracleKind
from oracle.types import Types, plain
from oracle.windows import Firing, KeptWindows
from oracle.wire import UNKNOWN


def _take(effects: Effects, operator: ops.WindowBy, message: Message[Any], index: int) -> None:
    if not keep_in_time(effects, operator, message, index) and operator.late_to is not None:
        before, key = effects.pipeline.operator(operator.inputs[0]), key_of_input(effects, operator, message)
        effects.write(operator.late_to, effects.encoded(before, key, message))


def _fire(effects: Effects, operator: ops.WindowBy, due: Firing) -> None:
    value = operator.aggregate.result(due.held)
    pane = Pane(due.key, due.window, value, due.kind, due.replaces)
    effects.emit(operator, Message(due.key, pane, due.timestamp, ()))


def _fires_early_at(operator: ops.WindowBy, due: Firing) -> float:
    return due.time if isinstance(operator.assigner, Unbounded) else math.inf


def _types(operator: ops.WindowBy, inputs: Sequence[Types]) -> Types:
    key, value = inputs[0].key, operator.aggregate.gives(plain(inputs[0].value))
    pane: Any = Pane
    return Types(key, pane[plain(key), Any if value in (UNKNOWN, Parameter.empty) else value])


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.WindowBy: OracleKind(
        take=_take,
        types=_types,
        state=KeptState(
            make=lambda op, _, remember: KeptWindows(op, remember), fire=_fire, fires_early_at=_fires_early_at
        ),
    ),
}

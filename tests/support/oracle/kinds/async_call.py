"""Operators that call asynchronous functions."""

from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, get_args, get_origin

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects, OracleKind
from oracle.kinds.stateless import with_value
from oracle.types import Types, item, returned


def _call(effects: Effects, operator: ops.AsyncFlatMap, message: Message[Any], _: int) -> None:
    for one in effects.calls.results(operator, message.value):
        effects.emit(operator, with_value(message, one))


def _types(operator: ops.AsyncFlatMap, inputs: Sequence[Types]) -> Types:
    result = returned(operator.call.fn)
    awaited = get_args(result)[-1] if get_origin(result) in (Awaitable, Coroutine) else result
    if operator.call.batch is not None:
        (awaited,) = (one for one in get_args(item(awaited)) if one is not Exception)
    return Types(inputs[0].key, item(awaited))


ROWS: Mapping[type[Operator], OracleKind] = {ops.AsyncFlatMap: OracleKind(take=_call, types=_types)}

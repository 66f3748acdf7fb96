"""Stream tasks, which see offsets and ask for commits: the oracle knows neither."""

from collections.abc import Mapping
from typing import Any

from fluvial.dsl import Message
from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects, OracleKind


def _refuse(_: Effects, operator: Operator, __: Message[Any], ___: int) -> None:
    raise NotImplementedError(f"the oracle does not run stream tasks, such as {operator.label}")


ROWS: Mapping[type[Operator], OracleKind] = {
    ops.Task: OracleKind(take=_refuse),
    ops.TaskCall: OracleKind(take=_refuse),
}

"""The objects that compiled code works with where tables are: see `bindings`."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ...dsl import operators as ops
from ...dsl.serde import value_serde
from .state import Bytes
from .tables import TableContext, TableOperator, joined_row

if TYPE_CHECKING:
    from .stage import StageTask


def make_table(
    task: "StageTask", operator: ops.TableOf, emit: Callable[..., None] | None, below: Bytes, empty: bool
) -> TableOperator:
    """A table of rows as they are sent to it."""
    tell = None if emit is None else task.emitter(emit)
    decode, keyless = value_serde(operator.value).decode, partial(_count, task.keyless, operator.id)
    return TableOperator(TableContext(operator.id, below, empty, decode, tell, keyless=keyless))


def _count(counts: dict[str, int], id: str) -> None:
    counts[id] = counts.get(id, 0) + 1


def make_joined_tables(
    task: "StageTask", operator: ops.JoinTables, emit: Callable[..., None] | None, below: Bytes, empty: bool
) -> TableOperator:
    """A table of the rows that two others have together."""
    serde = value_serde(task.program.flows[operator.id].value)
    tell = None if emit is None else task.emitter(emit)
    left, right = (_table(task, id).row for id in operator.inputs)
    joined = joined_row(left, right, operator.fn, operator.how, serde.encode)
    return TableOperator(TableContext(operator.id, below, empty, serde.decode, tell, joined))


def _table(task: "StageTask", id: str) -> TableOperator:
    return cast("TableOperator", task.stateful[id])


def attach_table_join(task: "StageTask", operator: ops.JoinTable, _: Any, __: Any) -> dict[str, Any]:
    """The rows that it looks up."""
    return {"row": _table(task, operator.uses_table).row}


def attach_put(task: "StageTask", operator: ops.PutTo, _: Any, __: Any) -> dict[str, Any]:
    """The table that it fills, made before."""
    encode = value_serde(task.program.flows[operator.table].value).encode
    return {"add": _table(task, operator.table).add, "undo": partial(task.undo, operator.table), "encode": encode}

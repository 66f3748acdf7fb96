"""The objects that compiled code works with where tables are: see `bindings`."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ....dsl import operators as ops
from ....dsl.serde import value_serde
from ..operators.tables import TableContext, TableOperator, joined_row

if TYPE_CHECKING:
    from .environment import StageEnvironment


def make_table(
    environment: "StageEnvironment", operator: ops.TableOf, emit: Callable[..., None] | None
) -> TableOperator:
    """A table of rows as they are sent to it."""
    tell = None if emit is None else environment.effects.emitter(emit)
    decode, keyless = value_serde(operator.value).decode, partial(_count, environment.counts.keyless, operator.id)
    return TableOperator(TableContext(operator.id, environment.below, environment.empty, decode, tell, keyless=keyless))


def _count(counts: dict[str, int], id: str) -> None:
    counts[id] = counts.get(id, 0) + 1


def make_joined_tables(
    environment: "StageEnvironment", operator: ops.JoinTables, emit: Callable[..., None] | None
) -> TableOperator:
    """A table of the rows that two others have together."""
    serde = value_serde(environment.program.flows[operator.id].value)
    tell = None if emit is None else environment.effects.emitter(emit)
    left, right = (_table(environment, id).row for id in operator.inputs)
    joined = joined_row(left, right, operator.fn, operator.how, serde.encode)
    return TableOperator(TableContext(operator.id, environment.below, environment.empty, serde.decode, tell, joined))


def _table(environment: "StageEnvironment", id: str) -> TableOperator:
    return cast("TableOperator", environment.stateful[id])


def attach_table_join(environment: "StageEnvironment", operator: ops.JoinTable, _: Any) -> dict[str, Any]:
    """The rows that it looks up."""
    return {"row": _table(environment, operator.uses_table).row}


def attach_put(environment: "StageEnvironment", operator: ops.PutTo, _: Any) -> dict[str, Any]:
    """The table that it fills, made before."""
    encode = value_serde(environment.program.flows[operator.table].value).encode
    return {
        "add": _table(environment, operator.table).add,
        "undo": partial(environment.effects.undo, operator.table),
        "encode": encode,
    }

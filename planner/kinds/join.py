"""What the planner knows of joins: of two streams, of a stream with a table or a remote table, and of two tables."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, element_type, promised, returned, row_of, taken
from ...dsl.errors import PlanError
from ...dsl.operators.labels import function_name
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ..descriptions import duration, exclusive_options, remote_options, time_options
from ..flow import Flow, known_name, of_function, plain, without_none
from ..sides import side_facts
from .checks import check_keys
from .contradictions import Contradiction, taking_keys, taking_sides
from .row import Flows, Meaning, OperatorState, PlannerKind
from .state_facts import key_facts, row_facts, type_of_values


def _of_table_join(operator: ops.JoinTables, inputs: list[Flow]) -> Flow:
    """The rows that its function returns; None is no row, for it deletes one."""
    return Flow(inputs[0].key, without_none(returned(operator.fn)))


def _of_remote_join(operator: ops.JoinRemote, inputs: list[Flow]) -> Flow:
    """What the user's function makes of a value and its row; the call itself returns the row alone."""
    return Flow(inputs[0].key, returned(operator.joined))


def _join_options(op: ops.JoinStreams) -> dict[str, str]:
    """Its function, and by which times and of which sides rows meet."""
    return {
        "function": function_name(op.fn),
        "how": op.how,
        "within": duration(op.within),
        "retain": op.retain,
    } | (time_options(op) | exclusive_options(op))


def _table_join_options(op: ops.JoinTable | ops.JoinTables) -> dict[str, str]:
    """Its function, and whether it is called where a row is missing."""
    return {"function": function_name(op.fn), "how": op.how}


def _remote_join_options(op: ops.JoinRemote) -> dict[str, str]:
    """Its function, whether it is called where a row is missing, the limits of the remote table, and when reads are
    hedged."""
    hedge = {} if op.table.hedge_ms is None else {"hedge": duration(op.table.hedge_ms)}
    return {"function": function_name(op.joined), "how": op.how} | remote_options(op.table) | hedge


def _check_join(operator: ops.JoinStreams, flows: Flows) -> None:
    """Refuse sides with keys of different types, and rows of unknown type, which could not be kept."""
    check_keys(operator, flows, "streams")
    for side, source in zip(("left", "right"), operator.inputs, strict=True):
        if flows[source].value is UNKNOWN:
            wrong = f"join {operator.id!r} keeps {side} rows whose type is not known"
            remedy = "annotate what the last map before it returns"
            raise PlanError(explain(wrong, "a type to decode kept rows with", remedy, operator.origin))


def _check_table_join(operator: ops.JoinTable, flows: Flows) -> None:
    """Refuse a stream whose keys are not of the type of the table's."""
    check_keys(operator, flows, "a stream and a table")


def _check_joined_tables(operator: ops.JoinTables, flows: Flows) -> None:
    """Refuse tables with keys of different types, and joined rows that could not be kept."""
    check_keys(operator, flows, "tables")
    flow = flows[operator.id]
    wrong = f"join {operator.id!r} keeps rows whose type is not known"
    if flow.value is not UNKNOWN:
        try:
            msgspec.json.Decoder(plain(flow.value))
        except (TypeError, NotImplementedError) as error:
            wrong = f"join {operator.id!r} keeps rows that cannot be decoded: {error}"
        else:
            return
    remedy = "annotate what its function returns"
    raise PlanError(explain(wrong, "a type to decode kept rows with", remedy, operator.origin))


def _of_sides(operator: Any, inputs: list[Flow]) -> Iterator[Contradiction]:
    return taking_sides(operator, operator.fn, (inputs[0].value, inputs[1].value), operator.how)


def _of_rows(operator: ops.JoinTable, inputs: list[Flow]) -> Iterator[Contradiction]:
    # None is no row of a table.
    row = without_none(inputs[1].value)
    return taking_sides(operator, operator.fn, (inputs[0].value, row), operator.how)


def _of_table_rows(operator: ops.JoinTables, inputs: list[Flow]) -> Iterator[Contradiction]:
    left, right = (without_none(flow.value) for flow in inputs)
    return taking_sides(operator, operator.fn, (left, right), operator.how)


def _of_lookup(operator: ops.JoinRemote, inputs: list[Flow]) -> Iterator[Contradiction]:
    fn = operator.call.fn
    wanted, read = taken(fn), promised(fn)
    if operator.table.batch is not None:
        wanted, read = element_type(wanted), row_of(read)
    yield from taking_keys(operator, function_name(fn), wanted, inputs)
    yield from taking_sides(operator, operator.joined, (inputs[0].value, without_none(read)), operator.how)


def _joined(operator: ops.JoinRemote) -> Callable[..., Any]:
    return operator.joined


def _join_state(pipeline: Pipeline, op: ops.JoinStreams, inputs: list[Flow]) -> Meaning:
    """Facts: the key, which rows meet, the format of rows, and what the sides are. Types: those of the rows."""
    left, right = inputs
    facts = {
        **key_facts(left.key),
        "how": op.how,
        "within": duration(op.within),
        "retain": op.retain,
        "time": op.time,
        **row_facts("left rows", left.value),
        **row_facts("right rows", right.value),
        **side_facts(pipeline, op),
    }
    return facts, {**type_of_values("left", left.value), **type_of_values("right", right.value)}


def _join_text(_: ops.JoinStreams, inputs: list[Flow]) -> str:
    """The types of the rows of both sides: `Order and Payment`."""
    return " and ".join(known_name(flow.value) or "json" for flow in inputs)


def _joined_table_state(_: Pipeline, op: ops.JoinTables, inputs: list[Flow]) -> Meaning:
    """Facts: the key, the two tables, and the format of joined rows. Types: that of joined rows."""
    left, right = op.inputs
    row = without_none(returned(op.fn))
    facts = {**key_facts(inputs[0].key), "how": op.how, "left": left, "right": right, **row_facts("rows", row)}
    return facts, type_of_values("row", row)


def _joined_table_text(op: ops.JoinTables, _: list[Flow]) -> str:
    """The type of the joined rows."""
    return known_name(without_none(returned(op.fn))) or "json"


def _leaves_unmatched(op: ops.JoinStreams) -> bool:
    return op.how != "inner"


def _rows_leave(_: ops.JoinStreams) -> str:
    return "at an end of input its rows leave, so that they do not meet those of later runs"


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.JoinStreams: PlannerKind(
        flow=of_function,
        options=_join_options,
        check=_check_join,
        contradictions=_of_sides,
        state=OperatorState(shown=_join_text, meaning=_join_state),
        fires_at_end=_leaves_unmatched,
        end_dependence=_rows_leave,
    ),
    ops.JoinTable: PlannerKind(
        flow=of_function, options=_table_join_options, check=_check_table_join, contradictions=_of_rows
    ),
    ops.JoinTables: PlannerKind(
        flow=_of_table_join,
        options=_table_join_options,
        check=_check_joined_tables,
        contradictions=_of_table_rows,
        state=OperatorState(shown=_joined_table_text, meaning=_joined_table_state),
    ),
    ops.JoinRemote: PlannerKind(
        flow=_of_remote_join, options=_remote_join_options, contradictions=_of_lookup, typing_function=_joined
    ),
}

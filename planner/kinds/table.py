"""What the planner knows of tables and of what fills them, remote tables included: the types of their rows."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, row_of, taken
from ...dsl.errors import PlanError
from ...dsl.operators.labels import function_name
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ..descriptions import no_options, remote_options
from ..flow import Flow, as_given, known_name, plain, without_none
from .contradictions import Contradiction, taking, taking_keys
from .row import Flows, Meaning, OperatorState, PlannerKind, never
from .state_facts import key_facts, row_facts, type_of_values


def _of_table(operator: ops.TableOf, _: list[Flow]) -> Flow:
    """The types that `key=` and `value=` of the table declare."""
    return Flow(operator.key, operator.value)


def _remote_put_options(op: ops.PutRemote) -> dict[str, str]:
    """The limits of calls that write to the remote table."""
    return remote_options(op.table)


def _of_write(operator: ops.PutRemote, inputs: list[Flow]) -> Iterator[Contradiction]:
    """What its function takes: a key and a row, or a mapping of them. None is how a row is deleted."""
    fn = operator.call.fn
    key, row = taken(fn), taken(fn, 1)
    if operator.table.batch is not None:
        key, row = (get_args(key) or (UNKNOWN,))[0], row_of(key)
    yield from taking_keys(operator, function_name(fn), key, inputs)
    yield from taking(operator, function_name(fn), without_none(row), inputs)


def _check_put(operator: ops.PutTo, flows: Flows) -> None:
    """Refuse keys that are not of the table's type, and values that cannot be its rows."""
    given, table = flows[operator.id], flows[operator.table]
    what = f"send_to table {operator.table!r}"
    if given.key != table.key:
        wrong = f"{what} of messages with keys of type {known_name(given.key) or 'unknown'}"
        remedy = "call .partition_by(...) before"
        raise PlanError(explain(wrong, f"keys of the table's type, {known_name(table.key)}", remedy, operator.origin))
    type_ = without_none(plain(given.value))
    if given.value is not UNKNOWN and not _may_be(type_, plain(table.value)):
        wrong = f"{what} of values of type {known_name(type_)}"
        remedy = "map them, or give the table another value="
        raise PlanError(explain(wrong, f"rows of the table's type, {known_name(table.value)}", remedy, operator.origin))


def _may_be(type_: Any, wanted: Any) -> bool:
    """Whether a value of one type may be of another type. True unless both are plain classes."""
    if not isinstance(type_, type) or not isinstance(wanted, type) or (type_, wanted) == (int, float):
        return True
    return issubclass(type_, wanted)


def _table_state(_: Pipeline, op: ops.TableOf, inputs: list[Flow]) -> Meaning:
    """Facts: the key, where rows come from, and their format. Types: that of the rows."""
    facts = {
        **key_facts(op.key),
        "rows come from": "its stream" if inputs else "the pipeline",
        **row_facts("rows", op.value),
    }
    return facts, type_of_values("row", op.value)


def _table_text(op: ops.TableOf, _: list[Flow]) -> str:
    """The type of its rows."""
    return known_name(op.value) or "json"


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.TableOf: PlannerKind(
        flow=_of_table,
        options=no_options,
        state=OperatorState(shown=_table_text, meaning=_table_state),
    ),
    ops.PutTo: PlannerKind(flow=as_given, options=no_options, declares_value=never, check=_check_put),
    ops.PutRemote: PlannerKind(
        flow=as_given, options=_remote_put_options, declares_value=never, contradictions=_of_write
    ),
}

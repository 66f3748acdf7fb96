"""Checks of one operator: whether its input types suit its kind. They raise PlanError."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN
from ..dsl.errors import PlanError
from ..dsl.validation import explain
from .flow import Flow, plain, shown, without_none

Flows = Mapping[str, Flow]
"""The types that each operator emits, by its id."""


def any_types(_: ops.Operator, __: Flows) -> None:
    """Accept all types."""


def check_border(operator: ops.Border, flows: Flows) -> None:
    """The next stage must be able to decode what is written."""
    if flows[operator.id].value is UNKNOWN:
        wrong = f"{operator.kind} {operator.id!r}: the type of its values is not known"
        remedy = "pass value=YourType, or annotate what the last map before it returns"
        raise PlanError(explain(wrong, "a value type at the border", remedy, operator.origin))


def check_window(operator: ops.WindowBy, flows: Flows) -> None:
    """There must be a key, and an accumulator that can be kept."""
    _check_keyed(operator, flows)
    state = operator.aggregate.state(plain(flows[operator.inputs[0]].value))
    if state is UNKNOWN:
        wrong = f"window {operator.id!r}: {operator.aggregate.name}() keeps values whose type is not known"
        remedy = "annotate what the last map before it returns, or use aggregate(..., type=...)"
        raise PlanError(explain(wrong, "a type to decode kept values with", remedy, operator.origin))
    try:
        msgspec.msgpack.Decoder(state)
    except (TypeError, NotImplementedError) as error:
        wrong = f"window {operator.id!r}: its accumulator cannot be kept: {error}"
        raise PlanError(
            explain(wrong, "a type that msgspec can decode", "pass type= to aggregate", operator.origin)
        ) from None


def check_process(operator: ops.Process, flows: Flows) -> None:
    """There must be a key."""
    _check_keyed(operator, flows)


def check_deduplicate(operator: ops.Deduplicate, flows: Flows) -> None:
    """There must be a key."""
    _check_keyed(operator, flows)


def check_join(operator: ops.JoinStreams, flows: Flows) -> None:
    """Both sides must have keys of one type, and rows that can be kept."""
    _check_keys(operator, flows, "streams")
    for side, source in zip(("left", "right"), operator.inputs, strict=True):
        if flows[source].value is UNKNOWN:
            wrong = f"join {operator.id!r} keeps {side} rows whose type is not known"
            remedy = "annotate what the last map before it returns"
            raise PlanError(explain(wrong, "a type to decode kept rows with", remedy, operator.origin))


def check_table_join(operator: ops.JoinTable, flows: Flows) -> None:
    """The stream must have keys of the table's type."""
    _check_keys(operator, flows, "a stream and a table")


def check_joined_tables(operator: ops.JoinTables, flows: Flows) -> None:
    """Both tables must have keys of one type, and the joined rows one that can be kept."""
    _check_keys(operator, flows, "tables")
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


def check_put(operator: ops.PutTo, flows: Flows) -> None:
    """Messages must have keys and values of the table's types."""
    given, table = flows[operator.id], flows[operator.table]
    what = f"send_to table {operator.table!r}"
    if given.key != table.key:
        wrong = f"{what} of messages with keys of type {shown(given.key) or 'unknown'}"
        remedy = "call .partition_by(...) before"
        raise PlanError(explain(wrong, f"keys of the table's type, {shown(table.key)}", remedy, operator.origin))
    kind = without_none(plain(given.value))
    if given.value is not UNKNOWN and not _may_be(kind, plain(table.value)):
        wrong = f"{what} of values of type {shown(kind)}"
        remedy = "map them, or give the table another value="
        raise PlanError(explain(wrong, f"rows of the table's type, {shown(table.value)}", remedy, operator.origin))


def _check_keyed(operator: ops.Operator, flows: Flows) -> None:
    if flows[operator.inputs[0]].key is None:
        wrong = f"{operator.kind} {operator.id!r} on messages without one key type"
        remedy = f"call .partition_by(...) before .{operator.kind}"
        raise PlanError(explain(wrong, "a keyed stream", remedy, operator.origin))


def _check_keys(operator: ops.Operator, flows: Flows, what: str) -> None:
    """Refuse a join of `what` whose keys are of different types, so that equal ones would not meet."""
    left, right = (flows[source] for source in operator.inputs)
    if left.key is None or left.key != right.key:
        key_types = f"keys of type {shown(left.key) or 'unknown'} and {shown(right.key) or 'unknown'}"
        wrong = f"{operator.kind} {operator.id!r} of {what} with {key_types}"
        remedy = "call .partition_by(...) on one of them before"
        raise PlanError(explain(wrong, "keys of one type, so that equal ones meet", remedy, operator.origin))


def _may_be(kind: Any, wanted: Any) -> bool:
    """Whether a value of one type may be of another type. True unless both are plain classes."""
    if not isinstance(kind, type) or not isinstance(wanted, type) or (kind, wanted) == (int, float):
        return True
    return issubclass(kind, wanted)

"""Checks of tables: who fills them, who uses them, and that keys and rows are of types that fit."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN
from ..dsl.checks import explain
from ..dsl.errors import PlanError
from ..dsl.pipeline import Pipeline
from .checks import check_keys
from .types import Flow, plain, shown, without_none


def check_tables(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse tables without use, changes that nobody tells, and keys and rows that do not fit."""
    filled = {op.table: op for op in pipeline.operators if isinstance(op, ops.PutTo)}
    read = {source for op in pipeline.operators for source in op.inputs}
    for operator in pipeline.operators:
        if isinstance(operator, ops.TableOf | ops.JoinTables) and operator.id not in read | filled.keys():
            wrong = f"nobody uses the table {operator.id!r}"
            remedy = "join a stream with it, follow its .changes(), or leave it out"
            raise PlanError(explain(wrong, "a table that is looked up", remedy, operator.origin))
        _check_changes(operator, filled)
        if isinstance(operator, ops.JoinTable):
            check_keys(operator, flows, "a stream and a table")
        if isinstance(operator, ops.JoinTables):
            check_keys(operator, flows, "tables")
            _check_kept(operator, flows[operator.id])
        if isinstance(operator, ops.PutTo):
            _check_rows(operator, flows[operator.id], flows[operator.table])


def _check_changes(operator: ops.Operator, filled: Mapping[str, ops.PutTo]) -> None:
    found = next((filled[source] for source in operator.fed_by if source in filled), None)
    if found is not None:
        wrong = (
            f"{operator.kind} {operator.id!r} follows the changes of table {found.table!r}, "
            f"which the pipeline fills itself at {found.origin}"
        )
        remedy = "use the stream that is sent to the table"
        raise PlanError(explain(wrong, "a table that is read from a stream", remedy, operator.origin))


def _check_kept(operator: ops.JoinTables, flow: Flow) -> None:
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


def _check_rows(operator: ops.PutTo, given: Flow, table: Flow) -> None:
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


def _may_be(kind: Any, wanted: Any) -> bool:
    """Whether a value of a type may be one of another; of types that are no plain classes nothing is said."""
    if not isinstance(kind, type) or not isinstance(wanted, type) or (kind, wanted) == (int, float):
        return True
    return issubclass(kind, wanted)

"""State queries: read rows of a table from the stores on this machine, whether or not a run has them open."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import structs

from ....dsl.errors import FluvialError, SystemProblem, UsageError
from ....dsl.finite import spelled
from ....dsl.serde import Serde, encode_key, key_serde, type_name, value_serde
from ....dsl.validation import explain
from ....planner.flow import Flow, plain
from ....planner.plan import Plan
from ....planner.settings import Settings
from ....planner.state_schema import PARTITIONS
from ....planner.type_inference import flows
from ...kernel.chunked_values import whole_value
from ...kernel.operators.tables import row_of, table_prefix
from ...preflight.state_compatibility import refuse_changed, reset_command
from ...state.read_only import StoreView
from ...systems.contract import ProducingSystem, System
from ..checkpoints.checkpoint import checkpoints_in
from ..checkpoints.migration import holders_of
from ..stores.alignment import stored_checkpoint
from ..stores.survey import latest_folders
from ..stores.task_stores import store_folders, task_folders


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table, its key and value as values that JSON can represent: NaN and infinities are texts."""

    key: Any
    value: Any


def get(plan: Plan, system: System, settings: Settings, table: str, key: str) -> TableRow:
    """Read the row of a key, which may be null.

    Raises UsageError if `table` is no table or `key` is no key of it, SystemProblem if this machine has no store of the
    table, PlanError if its rows were stored with another meaning, and FluvialError if the table has no such row."""
    flow = _flow(plan, table)
    decoded_key, data = _key(flow, key)
    with ExitStack() as stack:
        views = _views(plan, system, settings, table, stack)
        rows = [
            whole_value(view.get, table_prefix(table), data, entry)
            for view in views
            if (entry := view.get(table_prefix(table), data)) is not None
        ]
    if not rows:
        raise FluvialError(f"table {table!r} has no row of key {key!r} in its stores here, as of the last commit")
    return TableRow(_builtin(decoded_key), _builtin(_decoded(flow, rows[0])))


def scan(plan: Plan, system: System, settings: Settings, table: str, limit: int | None) -> Iterator[TableRow]:
    """Read the rows of a table, ordered by the bytes of their keys. Raises the errors of `get`."""
    flow = _flow(plan, table)
    decode_key = key_serde(flow.key).decode
    with ExitStack() as stack:
        parts = [_rows(view, table_prefix(table)) for view in _views(plan, system, settings, table, stack)]
        for key, row in islice(merge(*parts, key=itemgetter(0)), limit):
            yield TableRow(_builtin(decode_key(key)), _builtin(_decoded(flow, row)))


def _rows(view: StoreView, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    return ((key, whole_value(view.get, prefix, key, entry)) for key, entry in view.scan(prefix))


def value_text(value: Any) -> str:
    """A value as one line of text: a string as it is, other values as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _flow(plan: Plan, table: str) -> Flow:
    tables = [operator.id for operator in plan.pipeline.operators if operator.is_table]
    if table not in tables:
        stored = next((store for store in plan.stores if store.operator == table), None)
        wrong = f"{table!r} is no table of pipeline {plan.name!r}"
        if stored is not None:
            wrong = f"{plan.operator(table).kind} {table!r} keeps {stored.value}, in a form that is no table's"
        listed = ", ".join(map(repr, tables)) or "none"
        raise UsageError(explain(wrong, f"one of its tables: {listed}", at=plan.pipeline.origin))
    return flows(plan.pipeline)[table]


def _key(flow: Flow, text: str) -> tuple[Any, bytes]:
    """The key that a text stands for, and its bytes."""
    type_ = plain(flow.key)
    try:
        # What the shell was given is no UTF-8 here and there, and then a key of bytes alone.
        key = text if type_ is str else text.encode(errors="surrogateescape")
        if type_ not in (str, bytes):
            key = msgspec.json.decode(key, type=type_)
        return key, (flow.key.encode(key) if isinstance(flow.key, Serde) else encode_key(key)) or b""
    except SystemProblem:  # such as a schema registry that is out of reach
        raise
    except Exception as error:  # a Serde may be the user's, and raise anything
        wrong = f"KEY {text!r} is no {type_name(type_)}: {error}"
        raise UsageError(explain(wrong, f"a key of type {type_name(type_)}")) from None


def _decoded(flow: Flow, data: bytes) -> Any:
    return value_serde(flow.value).decode(row_of(data))


def _builtin(value: Any) -> Any:
    return spelled(msgspec.to_builtins(value, enc_hook=str, str_keys=True))


def _views(plan: Plan, system: System, settings: Settings, table: str, stack: ExitStack) -> list[StoreView]:
    """Open the stores that hold the table, one for each task number. An earlier version of the pipeline may have had
    the table in another stage: the store that was written last is opened."""
    stage = next(store.stage for store in plan.stores if store.operator == table)
    if isinstance(system, ProducingSystem):
        folders = latest_folders(plan, system, settings, table) or store_folders(plan, system, settings, stage)
    else:
        folders = [
            folder
            for task in holders_of(table, stage, checkpoints_in(system, plan.name))
            for folder in task_folders(plan, system, settings, task)
        ]
    if not folders:
        wrong = f"there is no state of table {table!r} of pipeline {plan.name!r} for {system.url}"
        expected = "stores that the local engine has left on this machine; those of Spark and memory: cannot be read"
        remedy = "run the pipeline here first, with the same --system and --state-dir"
        raise SystemProblem(explain(wrong, expected, remedy, plan.pipeline.origin))
    views = [stack.enter_context(StoreView(folder)) for folder in folders]
    _refuse_another_meaning(plan, system, settings, table, views)
    return views


def _refuse_another_meaning(plan: Plan, system: System, settings: Settings, table: str, views: list[StoreView]) -> None:
    """Raise PlanError if rows would be read with another meaning than they were stored with."""
    checkpoints = filter(None, (stored_checkpoint(view, table) for view in views))
    records = [checkpoint.states[table] for checkpoint in checkpoints if table in checkpoint.states]
    # Over how many tasks the keys are spread is no matter here.
    read = [
        (table, structs.replace(one, facts={name: fact for name, fact in one.facts.items() if name != PARTITIONS}))
        for one in records
    ]
    refuse_changed(plan, read, reset_command(plan, system, settings))

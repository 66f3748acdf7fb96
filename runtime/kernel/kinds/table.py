"""What the kernel does with tables and the operators that fill them: their rows, and calls to remote tables."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ....dsl.serde import value_serde
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from ..operators.remote_tables import put
from ..operators.tables import TableContext, TableOperator
from .async_call import after_call, attach_table_pool, write_call_with_key
from .binding import bind_key, count_in, table_of
from .row import KernelKind, if_followed
from .writing import after_firing, encoded, write_add


def _write_table(writer: CodeWriter, path: CodePath, operator: ops.TableOf, names: Variables, depth: int) -> None:
    """Write the code that makes a message of the table's stream a row."""
    # Behind its source a value that could be decoded is stored as it came.
    write_add(writer, path, operator, replace(names, value="v"), depth, operator.id)


def _write_put(writer: CodeWriter, path: CodePath, operator: ops.PutTo, names: Variables, depth: int) -> None:
    """Write the code that encodes a message as a row, and adds it to the table."""
    row = f"row_{writer.number[operator.id]}"
    path.text.add(depth, f"{row} = {encoded(writer, operator, names)}", operator.id)
    write_add(writer, path, operator, replace(names, value=row), depth, operator.table)


def _make_table(
    environment: StageEnvironment, operator: ops.TableOf, emit: Callable[..., None] | None
) -> TableOperator:
    """Make a table of the rows that are sent to it."""
    emit_change = None if emit is None else environment.effects.emitter(emit)
    decode, keyless = value_serde(operator.value).decode, partial(count_in, environment.counts.keyless, operator.id)
    return TableOperator(
        TableContext(operator.id, environment.backend, environment.empty, decode, emit_change, keyless=keyless)
    )


def _attach_put(environment: StageEnvironment, operator: ops.PutTo, _: Any) -> dict[str, Any]:
    """The functions that add a row to the table that it fills and take it back, and the encoder of rows."""
    encode = value_serde(environment.program.flows[operator.table].value).encode
    return {
        "add": table_of(environment, operator.table).add,
        "undo": partial(environment.effects.undo, operator.table),
        "encode": encode,
    }


def _attach_writes(
    environment: StageEnvironment, operator: ops.PutRemote, after: Callable[..., None]
) -> dict[str, Any]:
    """Make the pool for calls that write rows of a remote table."""
    remote = environment.program.remote(operator.table)
    # By the table: it has no id of its own, but for a number that changes with what the pipeline has before it.
    name = f"send_to {operator.table.name}"
    call = replace(operator.call, fn=put(remote))
    return attach_table_pool(environment, operator, call, after, name, remote.door_of_writes())


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.TableOf: KernelKind(write=_write_table, define=after_firing, make_state=_make_table, emits_at_once=if_followed),
    ops.PutTo: KernelKind(write=_write_put, attach=_attach_put),
    ops.PutRemote: KernelKind(write=write_call_with_key, define=after_call, bind=bind_key, attach=_attach_writes),
}

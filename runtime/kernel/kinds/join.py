"""What the kernel does to join streams, tables, and a stream with a table: state of rows, or code that looks one up."""

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
from ..operators.interval_join import JoinOperator
from ..operators.join_context import JoinContext
from ..operators.latest_join import LatestJoinOperator
from ..operators.remote_tables import joined
from ..operators.tables import TableContext, TableOperator, joined_row
from ..stateful_operator import StatefulOperator
from ..time.operator_watermarks import reached_by
from .async_call import after_call, attach_table_pool, write_call_with_key
from .binding import bind_function, bind_key, count_in, schedule_of, serde_of, table_of
from .row import KernelKind, always, if_followed
from .writing import after_firing, count_one, write_stateful


def _make_join(environment: StageEnvironment, operator: ops.JoinStreams, emit: Callable[..., None]) -> StatefulOperator:
    """Make the state that keeps the rows of both sides and joins them."""
    graph, id = environment.program.graph, operator.id
    serdes = [serde_of(environment.program.flows[source].value) for source in operator.inputs]
    context = JoinContext(
        id=id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=reached_by(environment.watermarks, id),
        within=operator.within,
        alone=(operator.how != "inner", operator.how == "outer"),
        fn=operator.fn,
        encode=(serdes[0].encode, serdes[1].encode),
        decode=(serdes[0].decode, serdes[1].decode),
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, id)),
        late=partial(count_in, environment.counts.late, id),
        schedule=schedule_of(environment, operator),
        firing=partial(environment.firing, graph.node_out[id]),
        pauses=environment.pauses,
    )
    return JoinOperator(context) if operator.retain == "all" else LatestJoinOperator(context)


def _unmatched_delay(operator: ops.JoinStreams) -> int:
    """A row without a partner is emitted once nothing can join it any more."""
    return 0 if operator.how == "inner" else operator.within


def _write_table_join(
    writer: CodeWriter, path: CodePath, operator: ops.JoinTable, names: Variables, depth: int
) -> None:
    """Write the code that looks up the row of a message, and joins the two."""
    n, text = writer.number[operator.id], path.text
    text.add(depth, f"r_{n} = row_{n}({names.key})", operator.id)
    if operator.how == "inner":
        text.add(depth, f"if r_{n} is not None:", operator.id)
        depth += 1
    text.add(depth, f"v_{n} = f_{n}({names.value}, r_{n})", operator.id)
    text.add(depth, count_one(path, n), operator.id)
    writer.follow(path, operator.id, replace(names, value=f"v_{n}"), depth)


def _attach_table_join(environment: StageEnvironment, operator: ops.JoinTable, _: Any) -> dict[str, Any]:
    """The function by which the code looks up a row of the table."""
    return {"row": table_of(environment, operator.uses_table).row}


def _make_joined_tables(
    environment: StageEnvironment, operator: ops.JoinTables, emit: Callable[..., None] | None
) -> TableOperator:
    """Make a table that joins two others."""
    serde = value_serde(environment.program.flows[operator.id].value)
    emit_change = None if emit is None else environment.effects.emitter(emit)
    left, right = (table_of(environment, id).row for id in operator.inputs)
    joined = joined_row(left, right, operator.fn, operator.how, serde.encode)
    return TableOperator(
        TableContext(operator.id, environment.backend, environment.empty, serde.decode, emit_change, joined)
    )


def _attach_lookups(
    environment: StageEnvironment, operator: ops.JoinRemote, after: Callable[..., None]
) -> dict[str, Any]:
    """Make the pool for calls that read rows of a remote table and join them."""
    remote = environment.program.remote(operator.table)
    hedged = remote.hedged_reads()
    call = replace(operator.call, fn=joined(remote, operator.joined, operator.how, hedged))
    return attach_table_pool(environment, operator, call, after, operator.id, remote.door_of_reads(hedged))


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.JoinStreams: KernelKind(
        write=write_stateful,
        define=after_firing,
        make_state=_make_join,
        emits_at_once=always,
        delay=_unmatched_delay,
        joins_rows=True,
    ),
    ops.JoinTable: KernelKind(write=_write_table_join, bind=bind_function, attach=_attach_table_join),
    ops.JoinTables: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_joined_tables, emits_at_once=if_followed
    ),
    ops.JoinRemote: KernelKind(write=write_call_with_key, define=after_call, bind=bind_key, attach=_attach_lookups),
}

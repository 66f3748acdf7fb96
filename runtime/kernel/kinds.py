"""What the kernel knows of each kind of operator: a row for each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...dsl import operators as ops
from ...dsl.kind_table import KindTable
from .compiler import operator_bindings as bind
from .compiler import operator_code as writers
from .compiler import operator_functions as own
from .stateful_operator import StatefulOperator

if TYPE_CHECKING:
    from .compiler.compiler import Compiler
    from .compiler.stage_graph import StageGraph


def _binds_nothing(*_: Any) -> dict[str, Any]:
    return {}


def _never(*_: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


def _no_delay(_: ops.Operator) -> int:
    return 0


def _early_or_late(graph: "StageGraph", operator: ops.WindowBy) -> bool:
    """Late messages are emitted at once; a trigger may fire with any message."""
    return operator.lateness > 0 or (operator.trigger is not None and graph.meets_time(operator.id))


def _collects(operator: ops.WindowBy) -> bool:
    return operator.aggregate.kind == "collect"


def _if_followed(graph: "StageGraph", operator: ops.Operator) -> bool:
    return not graph.silent(operator.id)


def _if_time_counts(graph: "StageGraph", operator: ops.Operator) -> bool:
    return graph.meets_time(operator.id)


def _unmatched_delay(operator: ops.JoinStreams) -> int:
    """Rows that join none are emitted once nothing can join them any more."""
    return 0 if operator.how == "inner" else operator.within


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKind:
    """A kind of operator as the kernel knows it.

    `write` adds the code where a message reaches it, `define` that of its own function in the stage's code, if it has
    one. `bind` gives what that code works with, by the names it has there. Once the code is loaded, `make_state` makes
    what keeps its state, and `attach` gives what needs the state or the loaded code. `emits_at_once` tells whether it
    emits as it takes a message in, not only as time passes; `delay` by how many ms what it emits may be behind its
    watermark. `keeps_values` tells whether its state holds values as they are given.
    """

    write: Callable[..., None]
    define: Callable[["Compiler", str], None] | None = None
    bind: Callable[..., dict[str, Any]] = _binds_nothing
    make_state: Callable[..., StatefulOperator] | None = None
    attach: Callable[..., dict[str, Any]] = _binds_nothing
    emits_at_once: Callable[["StageGraph", Any], bool] = _never
    delay: Callable[[Any], int] = _no_delay
    keeps_values: Callable[[Any], bool] = _never


def _written_nowhere(*_: Any) -> None:
    """No message comes to it on its way through the code: it is where messages begin."""


KERNEL_KINDS = KindTable(
    "runtime/kernel/kinds.py",
    {
        ops.Source: KernelKind(write=_written_nowhere),
        ops.Map: KernelKind(write=writers.write_map, bind=bind.bind_function),
        ops.MapMessages: KernelKind(write=writers.write_map_messages, bind=bind.bind_map_messages),
        ops.Filter: KernelKind(write=writers.write_filter, bind=bind.bind_function),
        ops.Split: KernelKind(write=writers.write_split, bind=bind.bind_split),
        ops.Branch: KernelKind(write=writers.write_branch),
        ops.FlatMap: KernelKind(write=writers.write_flat_map, bind=bind.bind_function),
        ops.Merge: KernelKind(write=writers.call_merge, define=own.merge),
        ops.AsyncFlatMap: KernelKind(write=writers.write_call, define=own.after_call, attach=bind.attach_calls),
        ops.JoinRemote: KernelKind(
            write=writers.write_call_with_key,
            define=own.after_call,
            bind=bind.bind_key,
            attach=bind.attach_lookups,
        ),
        ops.PutRemote: KernelKind(
            write=writers.write_call_with_key,
            define=own.after_call,
            bind=bind.bind_key,
            attach=bind.attach_writes,
        ),
        ops.PartitionBy: KernelKind(write=writers.write_partition_by, bind=bind.bind_partition_by),
        ops.Broadcast: KernelKind(write=writers.write_broadcast, bind=bind.bind_border),
        ops.WindowBy: KernelKind(
            write=writers.write_stateful,
            define=own.after_firing,
            make_state=bind.make_window,
            emits_at_once=_early_or_late,
            keeps_values=_collects,
        ),
        ops.JoinStreams: KernelKind(
            write=writers.write_stateful,
            define=own.after_firing,
            make_state=bind.make_join,
            emits_at_once=_always,
            delay=_unmatched_delay,
            keeps_values=_always,
        ),
        ops.TableOf: KernelKind(
            write=writers.write_table,
            define=own.after_firing,
            make_state=bind.make_table,
            emits_at_once=_if_followed,
        ),
        ops.JoinTable: KernelKind(
            write=writers.write_table_join, bind=bind.bind_function, attach=bind.attach_table_join
        ),
        ops.JoinTables: KernelKind(
            write=writers.write_stateful,
            define=own.after_firing,
            make_state=bind.make_joined_tables,
            emits_at_once=_if_followed,
        ),
        ops.PutTo: KernelKind(write=writers.write_put, attach=bind.attach_put),
        ops.Deduplicate: KernelKind(
            write=writers.write_stateful,
            define=own.after_firing,
            make_state=bind.make_deduplicate,
            emits_at_once=_if_time_counts,
        ),
        ops.Process: KernelKind(
            write=writers.write_stateful,
            define=own.after_firing,
            make_state=bind.make_process,
            emits_at_once=_if_time_counts,
        ),
        ops.Side: KernelKind(write=_written_nowhere, define=own.after_firing, attach=bind.attach_side),
        ops.SendTo: KernelKind(write=writers.write_send_to, bind=bind.bind_send_to),
        ops.SinkTo: KernelKind(write=writers.write_sink, bind=bind.bind_sink),
    },
)

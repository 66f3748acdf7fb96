"""The kernel's row of asynchronous operators: a message becomes a call in the pool of its operator, and a function of
its own continues with the results."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ....dsl import operators as ops
from ....dsl.functions import called_name
from ....dsl.operators import Operator
from ....dsl.operators.calls import Order
from ....dsl.pooled_function import PooledFunction
from ....dsl.serde import value_serde
from ..calls.call_journal import CallJournal, KeptResults, call_names
from ..calls.call_keys import origins
from ..calls.door import Door
from ..calls.in_flight import InFlightMessage
from ..calls.table_door import TableDoor
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from .row import KernelKind


def write_call(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Submit a call to the operator's pool."""
    n = writer.number[operator.id]
    item = f"({names.timestamp}, {names.headers}, in_flight)"
    path.text.add(depth, "in_flight.pending += 1", operator.id)
    order = _order_beside_others(writer, path, operator)
    if order == "input":
        path.text.add(depth, f"in_flight.ordered += (({operator.id!r}, None),)", operator.id)
    elif order == "key":  # without a key a message is in nobody's order
        path.text.add(depth, f"if {names.key} is not None:", operator.id)
        path.text.add(depth + 1, f"in_flight.ordered += (({operator.id!r}, {names.key}),)", operator.id)
    number = "(call.path, in_flight.pending - others)" if _is_behind_call(path, writer) else "in_flight.pending"
    path.text.add(depth, f"submit_{n}(Call({names.key}, {names.value}, {item}, {number}))", operator.id)


def _is_behind_call(path: CodePath, writer: CodeWriter) -> bool:
    """Whether a code path begins at a call that has ended."""
    return path.start in writer.graph.operators and writer.graph.operators[path.start].async_call is not None


def _order_beside_others(writer: CodeWriter, path: CodePath, operator: Operator) -> Order:
    """The order of calls that other effects of their messages would break; "none" if there are no others. Calls behind
    other calls keep the order in which those end."""
    graph = writer.graph
    behind = _is_behind_call(path, writer)
    return operator.async_call.order if operator.async_call and not behind and graph.breaks_order else "none"


def write_call_with_key(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Submit a call of a remote table's function, whose argument is (key, value)."""
    n = writer.number[operator.id]
    argument = f"(None if {names.key} is None else key_{n}({names.key}), {names.value})"
    write_call(writer, path, operator, replace(names, value=argument), depth)


def after_call(writer: CodeWriter, id: str) -> None:
    """Write the function for what follows an asynchronous call that has ended."""
    number, text = writer.number[id], writer.text
    path = CodePath(id, True, False, writer.graph.node_in[id], "in_flight.watermark", text)
    text.add(1, f"def after_{number}(call):")
    text.add(2, "t, h, in_flight = call.item")
    text.add(2, "k = call.key")
    text.add(2, "others = in_flight.pending")
    text.add(2, "if not in_flight.failed:")
    text.add(3, "try:")
    text.add(4, "if call.error is not None:", id)
    text.add(5, "raise call.take_error()", id)
    text.add(4, f"emitted[{number}] += len(call.results)", id)
    if writer.graph.followers[id]:
        text.add(4, "for v in call.results:", id)
        writer.follow(path, id, Variables(), 5)
    text.catch(3)
    text.add(4, "failed_in_flight(in_flight, error)")
    writer.close(2)


def attach_pool(
    environment: StageEnvironment, operator: Operator, call: ops.AsyncCall, after: Callable[..., None]
) -> dict[str, Any]:
    """Make the pool of an operator; `after` takes each call that has ended. Returns what compiled code calls."""
    given: dict[str, Any] = {}
    if (results := environment.options.journals.get(operator.id)) is not None:
        given["journal"] = _journal(environment, operator, results)
    if (door := _door(environment, operator, call)) is not None:
        given["door"] = door
    return _attached(environment, operator, call, after, given)


def attach_table_pool(
    environment: StageEnvironment,
    operator: Operator,
    call: ops.AsyncCall,
    after: Callable[..., None],
    name: str,
    door: TableDoor | None,
) -> dict[str, Any]:
    """Make the pool of an operator whose calls go to a remote table, as `attach_pool` does; `name` is that of the
    operator in the keys of calls, and `door` that of its messages."""
    # Each attempt has its own timeout. To wait for a limit or a rate, for a batch, or for the row that is written
    # before must cost the message none.
    call = replace(call, timeout=_FOREVER)
    attached = _attached(environment, operator, call, after, {} if door is None else {"door": door})
    environment.pools[operator.id].give_names(call_origins(environment, name))
    return attached


def _attached(
    environment: StageEnvironment,
    operator: Operator,
    call: ops.AsyncCall,
    after: Callable[..., None],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    pool = environment.pools[operator.id] = environment.options.make_pool(operator, call, after, **given)
    return {"submit": pool.submit}


def _door(environment: StageEnvironment, operator: Operator, call: ops.AsyncCall) -> Door | None:
    """The door of the calls of an operator; None if they wait for nothing."""
    own = operator.async_call
    if own is not None and isinstance(own.fn, PooledFunction):
        return environment.program.door(call, own.fn)
    free = call.limit is None and call.breaker is None and call.concurrency is None
    return None if free else environment.program.door(call)


def call_origins(environment: StageEnvironment, id: str) -> Callable[[InFlightMessage], str]:
    """What names the messages in front of the calls of an operator."""
    program, graph = environment.program, environment.program.graph
    inputs = graph.inputs.items()
    sources = {
        name for name, one in inputs if one.source is not None and one.source.stream not in program.without_offsets
    }
    return origins((program.plan.name, id), sources, _windows(environment), _run_of_end(environment))


def _windows(environment: StageEnvironment) -> set[str]:
    return {id for id, operator in environment.program.graph.operators.items() if operator.kind == "window"}


def _run_of_end(environment: StageEnvironment) -> str | None:
    """The run whose end of input may fire windows that fire again in the next run; empty if none do."""
    return (environment.options.run or None) if environment.options.keeps_at_end else ""


def _journal(environment: StageEnvironment, operator: Operator, kept: KeptResults) -> CallJournal:
    """The journal of an operator. Records of an intermediate stream stay what they are, too, once they were read."""
    graph = environment.program.graph
    names = call_names(graph.inputs.keys(), _windows(environment), _run_of_end(environment))
    serde = value_serde(environment.program.flows[operator.id].value)
    return CallJournal(operator.label, operator.origin, serde, names, kept)


def with_last(fn: Callable[..., Any], client: Any) -> Callable[[Any], Any]:
    """A function of one argument that passes on a client as the second one. It has the name of `fn`."""

    def call(value: Any) -> Any:
        return fn(value, client)

    call.__name__ = called_name(fn)
    return call


def _attach_calls(
    environment: StageEnvironment, operator: ops.AsyncFlatMap, after: Callable[..., None]
) -> dict[str, Any]:
    """The pool for calls of the user's function, with the client of its resource if it has one."""
    call = operator.call
    if call.resource is not None:
        fn, client = call.fn, environment.program.clients[call.resource]
        call = replace(call, fn=with_last(fn, client))
    attached = attach_pool(environment, operator, call, after)
    environment.pools[operator.id].give_names(call_origins(environment, operator.id))
    return attached


_FOREVER = 10 * 366 * 86_400_000
"""Milliseconds that no call takes."""

ROWS: Mapping[type[Operator], KernelKind] = {
    ops.AsyncFlatMap: KernelKind(write=write_call, define=after_call, attach=_attach_calls),
}

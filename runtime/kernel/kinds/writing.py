"""Parts of the compiled code that several kinds of operators share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....dsl.operators import Operator
from ..code.code_writer import CodeWriter
from ..code.record_sizes import may_be_large
from ..code.source_text import CodePath, Variables
from .row import WriteCode

HOLDS = "(r_{n} := f_{n}({v})) is True or r_{n} and check_answer(r_{n})"
"""Whether a predicate holds. An answer that is not a bool is checked before it counts as true."""


def transform(code: str) -> WriteCode:
    """A writer for an operator that binds a new value, on a line of its own or at the head of a block."""

    def write(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
        number = writer.number[operator.id]
        out = names if "v_" not in code else Variables(names.key, f"v_{number}", names.timestamp, names.headers)
        path.text.add(depth, code.format(n=number, v=names.value), operator.id)
        if code.endswith(":"):
            depth += 1
            path.text.add(depth, count_one(path, number), operator.id)
        writer.follow(path, operator.id, out, depth)

    return write


def count_one(path: CodePath, number: int) -> str:
    """The code that counts one message that an operator emits."""
    return f"{f'c_{number}' if path.looped else f'emitted[{number}]'} += 1"


def watermark_at(writer: CodeWriter, path: CodePath, operator: Operator) -> str:
    """The expression of the watermark by which an operator judges its input."""
    node = writer.graph.node_in[operator.id]
    if path.tracked:
        return "in_flight.watermark" if writer.graph.nodes[node].kind == "in-flight" else f"now[{node}]"
    if node == path.node:
        return path.watermark
    # A node that never goes back, behind one that may: it is advanced late, so the greater of the two watermarks
    # counts.
    behind = writer.graph.nodes[node].follows == (path.node,) and writer.graph.nodes[node].kind == "merge"
    return f"({path.watermark} if {path.watermark} > now[{node}] else now[{node}])" if behind else f"now[{node}]"


def write_stateful(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Write the code that adds a message to the operator's own state."""
    write_add(writer, path, operator, names, depth, operator.id)


def write_add(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int, state: str) -> None:
    """Write the code that adds a message to the state of the operator `state`, which may be another one."""
    n = writer.number[operator.id]
    message = f"{names}, {watermark_at(writer, path, operator)}"
    if len(operator.inputs) > 1:
        message += f", {operator.inputs.index(names.of)}"
    if path.tracked:
        code = f"in_flight.effects.append(({state!r}, add_{n}, ({message})))"
    elif path.risky:
        code = f"later_{n}.append(({message}))"
    else:
        code = f"add_{n}({message})"
    path.text.add(depth, code, operator.id)


def output(record: Callable[[CodeWriter, CodePath, Any, Variables], str]) -> WriteCode:
    """A writer for an operator that adds a record to its list of outputs; `record` returns its expression."""

    def write(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
        _write_out(writer, path, operator, record(writer, path, operator, names), depth)

    return write


@dataclass(frozen=True, slots=True)
class RecordCode:
    """The expressions of a record that is made: its key, its headers, and its value where `present` is not None."""

    key: str
    present: str
    value: str
    headers: str

    @property
    def value_or_none(self) -> str:
        """The expression of the value, None where there is none."""
        return self.value if self.value == self.present else f"None if {self.present} is None else {self.value}"


Key = Callable[[CodeWriter, Any, Variables], str]
"""Returns the expression of the key of a record."""
Whole = Callable[[CodeWriter, CodePath, Any, Variables, RecordCode], str]
"""Returns the expression of a record."""


def record_output(key: Key, whole: Whole) -> WriteCode:
    """A writer for an operator that adds a record for a stream to its list of outputs. Where the stream has a limit,
    the size of the record is checked before."""

    def write(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
        n = writer.number[operator.id]
        parts = RecordCode(key(writer, operator, names), names.value, f"encode_{n}({names.value})", names.headers)
        if operator.id in writer.limits:
            parts = _write_check(writer, path, operator, parts, depth)
        _write_out(writer, path, operator, whole(writer, path, operator, names, parts), depth)

    return write


def _write_check(writer: CodeWriter, path: CodePath, operator: Operator, parts: RecordCode, depth: int) -> RecordCode:
    """Write the check of the size of a record. Returns the record with its key and its value in variables."""
    n, text, id = writer.number[operator.id], path.text, operator.id
    key, value = parts.key, f"e_{n}"
    if not key.isidentifier():
        key = f"q_{n}"
        text.add(depth, f"{key} = {parts.key}", id)
    text.add(depth, f"{value} = {parts.value_or_none}", id)
    text.add(depth, f"if {may_be_large(writer.limits[id], key, value, parts.headers)}:", id)
    text.add(depth + 1, f"check_size_{n}({key}, {value}, {parts.headers})", id)
    return RecordCode(key, value, value, parts.headers)


def _write_out(writer: CodeWriter, path: CodePath, operator: Operator, expression: str, depth: int) -> None:
    n = writer.number[operator.id]
    code = (
        f"in_flight.effects.append(({operator.id!r}, release_{n}, ({expression},)))"
        if path.tracked
        else f"out_{n}({expression})"
    )
    path.text.add(depth, code, operator.id)


def encoded(writer: CodeWriter, operator: Operator, names: Variables) -> str:
    """The code of the expression that encodes a value; None stays None."""
    return f"None if {names.value} is None else encode_{writer.number[operator.id]}({names.value})"


def after_firing(writer: CodeWriter, id: str) -> None:
    """Write the function for what follows a pane, a joined row, a change of a table, or an output of a processor."""
    graph, text, number = writer.graph, writer.text, writer.number[id]
    if graph.operators[id].is_table and not graph.followers[id]:  # it may be there for nothing else
        return
    watermark = f"now[{graph.node_out[id]}]"
    path = writer.path(id, watermark)
    text.add(1, f"def after_{number}(k, v, t, h):")
    text.add(2, f"emitted[{number}] += 1", id)
    if graph.places:
        text.add(2, "at[0] = -1")
    # The watermark waits for the messages in flight behind a processor, whichever of its outputs they belong to.
    origin = graph.side_of.get(id, id)
    opened = f"in_flight = open_firing({origin!r}, k, v, t, {watermark})"
    failed = f"failed_firing({origin!r}, k, v, t, error)"
    writer.dispatch(path, list(graph.followers[id]), Variables(of=id), 2, failed, opened)

"""What each kind of operator is in a stage's compiled code."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ..time.bounds import EARLIEST, LATEST
from .source_text import CodePath, Variables

if TYPE_CHECKING:
    from .compiler import Compiler


def _transform(code: str) -> Callable[["Compiler", CodePath, Operator, Variables, int], None]:
    """A writer for an operator that binds a new value, on a line of its own or at the head of a block."""

    def write(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
        number = compiler.number[operator.id]
        out = names if "v_" not in code else Variables(names.key, f"v_{number}", names.timestamp, names.headers)
        part.text.add(depth, code.format(n=number, v=names.value), operator.id)
        if code.endswith(":"):
            depth += 1
            counter = f"c_{number}" if part.looped else f"emitted[{number}]"
            part.text.add(depth, f"{counter} += 1", operator.id)
        compiler.follow(part, operator.id, out, depth)

    return write


_HOLDS = "(r_{n} := f_{n}({v})) is True or r_{n} and check_answer(r_{n})"
"""Whether a predicate holds; what is not False is looked at before it counts as true."""


def write_split(compiler: "Compiler", part: CodePath, operator: ops.Split, names: Variables, depth: int) -> None:
    """Which branch a message takes, as a number."""
    n = compiler.number[operator.id]
    calls = [_HOLDS.replace("f_", f"f{place}_").format(n=n, v=names.value) for place in range(len(operator.predicates))]
    ways = [f"{place} if {holds}" for place, holds in enumerate(calls)]
    part.text.add(depth, f"b_{n} = {' else '.join(ways)} else {len(ways)}", operator.id)
    compiler.follow(part, operator.id, names, depth)


def write_branch(compiler: "Compiler", part: CodePath, operator: ops.Branch, names: Variables, depth: int) -> None:
    """An `if` for the messages of a branch."""
    way = f"b_{compiler.number[operator.inputs[0]]} == {operator.place}"
    _transform(f"if {way}:")(compiler, part, operator, names, depth)


def write_map_messages(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """A new message of the four variables, and back."""
    n, text = compiler.number[operator.id], part.text
    out = Variables(f"k_{n}", f"v_{n}", f"t_{n}", f"h_{n}")
    key = f"None if {names.key} is None else key_{n}({names.key})"
    text.add(depth, f"m_{n} = f_{n}(Message({key}, {names.value}, {names.timestamp}, {names.headers}))", operator.id)
    text.add(depth, f"{out} = encode_key(m_{n}.key), m_{n}.value, m_{n}.timestamp, m_{n}.headers", operator.id)
    # Systems take records as they come, and find what cannot be read back when it is too late.
    text.add(depth, f"if t_{n}.__class__ is not int or not {EARLIEST} <= t_{n} <= {LATEST}:", operator.id)
    text.add(depth + 1, f"raise wrong_time(t_{n})", operator.id)
    text.add(depth, f"if h_{n} != ():", operator.id)
    text.add(depth + 1, f"check_headers(h_{n})", operator.id)
    compiler.follow(part, operator.id, out, depth)


def call_merge(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """A call of the function that all ways into a merge share: see `operator_functions.merge`."""
    n = compiler.number[operator.id]
    later = [f", later_{compiler.number[id]}" for id in compiler.stateful(operator.id)] if not part.tracked else []
    time = "in_flight" if part.tracked else _watermark(compiler, part, operator)
    part.text.add(depth, f"merge_{n}({names}, {time}{''.join(later)})", operator.id)


def _watermark(compiler: "Compiler", part: CodePath, operator: Operator) -> str:
    """The watermark that an operator's input is judged by, as an expression."""
    node = compiler.graph.node_in[operator.id]
    if part.tracked:
        return "in_flight.watermark" if compiler.graph.nodes[node].kind == "in-flight" else f"now[{node}]"
    if node == part.node:
        return part.watermark
    # A line that does not go back, behind one that does: it may lag behind, for it follows when it must.
    behind = compiler.graph.nodes[node].follows == (part.node,) and compiler.graph.nodes[node].kind == "merge"
    return f"({part.watermark} if {part.watermark} > now[{node}] else now[{node}])" if behind else f"now[{node}]"


def write_stateful(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """A message added to the operator's own state."""
    _add(compiler, part, operator, names, depth, operator.id)


def _add(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int, state: str) -> None:
    """Add a message to the state of an operator, this one or another."""
    n = compiler.number[operator.id]
    message = f"{names}, {_watermark(compiler, part, operator)}"
    if len(operator.inputs) > 1:
        message += f", {operator.inputs.index(names.of)}"
    if part.tracked:
        code = f"in_flight.effects.append(({state!r}, add_{n}, ({message})))"
    elif part.risky:
        code = f"later_{n}.append(({message}))"
    else:
        code = f"add_{n}({message})"
    part.text.add(depth, code, operator.id)


def write_table(compiler: "Compiler", part: CodePath, operator: ops.TableOf, names: Variables, depth: int) -> None:
    """A row added to a table."""
    # Behind its source a value that could be decoded is kept as it came.
    _add(compiler, part, operator, replace(names, value="v"), depth, operator.id)


def write_put(compiler: "Compiler", part: CodePath, operator: ops.PutTo, names: Variables, depth: int) -> None:
    """A message encoded as a row, and added to the table that it is sent to."""
    row = f"row_{compiler.number[operator.id]}"
    part.text.add(depth, f"{row} = {_encoded(compiler, operator, names)}", operator.id)
    _add(compiler, part, operator, replace(names, value=row), depth, operator.table)


def write_table_join(
    compiler: "Compiler", part: CodePath, operator: ops.JoinTable, names: Variables, depth: int
) -> None:
    """A row looked up, and joined with the message."""
    n, text = compiler.number[operator.id], part.text
    text.add(depth, f"r_{n} = row_{n}({names.key})", operator.id)
    if operator.how == "inner":
        text.add(depth, f"if r_{n} is not None:", operator.id)
        depth += 1
    text.add(depth, f"v_{n} = f_{n}({names.value}, r_{n})", operator.id)
    text.add(depth, f"{f'c_{n}' if part.looped else f'emitted[{n}]'} += 1", operator.id)
    compiler.follow(part, operator.id, replace(names, value=f"v_{n}"), depth)


def write_call(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """A call handed to the operator's pool."""
    n = compiler.number[operator.id]
    item = f"({names.timestamp}, {names.headers}, in_flight)"
    part.text.add(depth, "in_flight.pending += 1", operator.id)
    part.text.add(depth, f"submit_{n}(Call({names.key}, {names.value}, {item}))", operator.id)


def write_call_with_key(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """A call of a remote table's function, which is given the key too."""
    n = compiler.number[operator.id]
    asked = f"(None if {names.key} is None else key_{n}({names.key}), {names.value})"
    write_call(compiler, part, operator, replace(names, value=asked), depth)


def _output(record: Callable[["Compiler", CodePath, Any, Variables], str]) -> Callable[..., None]:
    """A writer for an operator that puts a record into its list of outputs."""

    def write(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, depth: int) -> None:
        n = compiler.number[operator.id]
        output = record(compiler, part, operator, names)
        code = (
            f"in_flight.effects.append(({operator.id!r}, release_{n}, ({output},)))"
            if part.tracked
            else f"out_{n}({output})"
        )
        part.text.add(depth, code, operator.id)

    return write


def _encoded(compiler: "Compiler", operator: Operator, names: Variables) -> str:
    return f"None if {names.value} is None else encode_{compiler.number[operator.id]}({names.value})"


def _border_record(compiler: "Compiler", part: CodePath, operator: ops.PartitionBy, names: Variables) -> str:
    n = compiler.number[operator.id]
    key, rest = f"key_{n}(f_{n}({names.value}))", f"{names.timestamp}, {names.headers}"
    return _crossing(compiler, part, operator, names, key, rest)


def _broadcast_record(compiler: "Compiler", part: CodePath, operator: ops.Broadcast, names: Variables) -> str:
    return _crossing(compiler, part, operator, names, names.key, f"{names.timestamp}, {names.headers}")


def _crossing(compiler: "Compiler", part: CodePath, operator: Operator, names: Variables, key: str, rest: str) -> str:
    n = compiler.number[operator.id]
    if not compiler.trailers or part.tracked:
        return f"({key}, {_encoded(compiler, operator, names)}, {rest})"
    trailer = f"pack_trailer(producer, {_watermark(compiler, part, operator)})"
    whole = f"({key}, encode_{n}({names.value}) + {trailer}, {rest})"
    return f"{whole} if {names.value} is not None else with_trailer(({key}, None, {rest}), {trailer})"


def _sent_record(compiler: "Compiler", _: CodePath, operator: ops.SendTo, names: Variables) -> str:
    key = f"encode_key(f_{compiler.number[operator.id]}({names.value}))" if operator.key else names.key
    return f"({key}, {_encoded(compiler, operator, names)}, {names.timestamp}, {names.headers})"


def _sunk_message(compiler: "Compiler", _: CodePath, operator: ops.SinkTo, names: Variables) -> str:
    n = compiler.number[operator.id]
    key = f"None if {names.key} is None else key_{n}({names.key})"
    return f"Message({key}, {names.value}, {names.timestamp}, {names.headers})"


write_map = _transform("v_{n} = f_{n}({v})")
write_filter = _transform(f"if {_HOLDS}:")
write_flat_map = _transform("for v_{n} in f_{n}({v}):")
write_partition_by = _output(_border_record)
write_broadcast = _output(_broadcast_record)
write_send_to = _output(_sent_record)
write_sink = _output(_sunk_message)

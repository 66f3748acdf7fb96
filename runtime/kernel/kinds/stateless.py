"""Operators that keep no state: their functions are called in place."""

from collections.abc import Mapping
from typing import Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from ..time.bounds import EARLIEST, LATEST
from .binding import bind_function, key_decoder
from .row import KernelKind, writes_no_code
from .writing import HOLDS, transform, watermark_at


def _write_split(writer: CodeWriter, path: CodePath, operator: ops.Split, names: Variables, depth: int) -> None:
    """Set the number of the branch that a message takes."""
    n = writer.number[operator.id]
    calls = [HOLDS.replace("f_", f"f{index}_").format(n=n, v=names.value) for index in range(len(operator.predicates))]
    branches = [f"{index} if {holds}" for index, holds in enumerate(calls)]
    path.text.add(depth, f"b_{n} = {' else '.join(branches)} else {len(branches)}", operator.id)
    writer.follow(path, operator.id, names, depth)


def _write_branch(writer: CodeWriter, path: CodePath, operator: ops.Branch, names: Variables, depth: int) -> None:
    """Write an `if` for the messages of a branch."""
    taken = f"b_{writer.number[operator.inputs[0]]} == {operator.index}"
    transform(f"if {taken}:")(writer, path, operator, names, depth)


def _write_map_messages(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Call a function with a Message, and unpack the one that it returns."""
    n, text = writer.number[operator.id], path.text
    out = Variables(f"k_{n}", f"v_{n}", f"t_{n}", f"h_{n}")
    key = f"None if {names.key} is None else key_{n}({names.key})"
    text.add(depth, f"m_{n} = f_{n}(Message({key}, {names.value}, {names.timestamp}, {names.headers}))", operator.id)
    text.add(depth, f"{out} = encode_key(m_{n}.key), m_{n}.value, m_{n}.timestamp, m_{n}.headers", operator.id)
    # Checked here, since systems store any record: a wrong one would only fail when it is read.
    text.add(depth, f"if t_{n}.__class__ is not int or not {EARLIEST} <= t_{n} <= {LATEST}:", operator.id)
    text.add(depth + 1, f"raise wrong_time(t_{n})", operator.id)
    text.add(depth, f"if h_{n} != ():", operator.id)
    text.add(depth + 1, f"check_headers(h_{n})", operator.id)
    writer.follow(path, operator.id, out, depth)


def _call_merge(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Call the function that all inputs of a merge share: see `_define_merge`."""
    n = writer.number[operator.id]
    later = [f", later_{writer.number[id]}" for id in writer.stateful(operator.id)] if not path.tracked else []
    time = "in_flight" if path.tracked else watermark_at(writer, path, operator)
    path.text.add(depth, f"merge_{n}({names}, {time}{''.join(later)})", operator.id)


def _define_merge(writer: CodeWriter, id: str) -> None:
    """Write a merge as a function, so that the code behind it is written once, not once for each input."""
    graph, number = writer.graph, writer.number[id]
    tracked = bool(graph.tracked)
    path = CodePath(id, tracked, True, graph.node_in[id], "w", writer.text)
    later = "".join(f", later_{writer.number[stateful]}" for stateful in writer.stateful(id)) if not tracked else ""
    writer.text.add(1, f"def merge_{number}(k, v, t, h, {'in_flight' if tracked else 'w'}{later}):")
    writer.follow(path, id, Variables(), 2)


def _bind_split(_: StageEnvironment, operator: ops.Split) -> dict[str, Any]:
    """The predicates of its branches, in order."""
    return {f"f{index}": predicate for index, predicate in enumerate(operator.predicates)}


def _bind_map_messages(environment: StageEnvironment, operator: ops.MapMessages) -> dict[str, Any]:
    """The operator's function, and the decoder of the keys that it is given."""
    return {"f": operator.fn, "key": key_decoder(environment, operator)}


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Source: KernelKind(write=writes_no_code),
    ops.Map: KernelKind(write=transform("v_{n} = f_{n}({v})"), bind=bind_function),
    ops.MapMessages: KernelKind(write=_write_map_messages, bind=_bind_map_messages),
    ops.Filter: KernelKind(write=transform(f"if {HOLDS}:"), bind=bind_function),
    ops.Split: KernelKind(write=_write_split, bind=_bind_split),
    ops.Branch: KernelKind(write=_write_branch),
    ops.FlatMap: KernelKind(write=transform("for v_{n} in f_{n}({v}):"), bind=bind_function),
    ops.Merge: KernelKind(write=_call_merge, define=_define_merge),
}

"""What people read of an operator in errors, plans, drawings and `top`: its stream, its id or its function."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

from . import operators as ops
from .origin import Origin


def name_of(fn: Callable[..., Any]) -> str:
    """A function's name; a lambda is a lambda, and what `partial` makes has the name of what it calls."""
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__name__", type(fn).__name__)
    return "lambda" if name == "<lambda>" else name


def label(operator: ops.Operator) -> str:
    """A short text that tells an operator from its neighbours: `map(to_visit)`, `filter(lambda, visits.py:12)`,
    `stream clicks`, `window visits`.

    The id of an operator that has no name of the user's counts operators, and changes when one is added.
    """
    return _LABELS.get(type(operator), _by_function)(operator)


def place(origin: Origin) -> str:
    """The file, without its folder, and the line; empty for what has no lines."""
    return f"{PurePath(origin.file).name}:{origin.line}" if origin.line else ""


def _by_function(operator: Any) -> str:
    name = name_of(operator.fn)
    return _with(operator.kind, name, place(operator.origin) if name == "lambda" else "")


def _with(kind: str, *parts: str) -> str:
    told = ", ".join(filter(None, parts))
    return f"{kind}({told})" if told else kind


def _by_id(operator: ops.Operator) -> str:
    return f"{operator.kind} {operator.id}"


_LABELS: Mapping[type[ops.Operator], Callable[[Any], str]] = {
    ops.Source: lambda op: f"stream {op.stream}",
    ops.Merge: lambda op: _with("merge", place(op.origin)),
    ops.PartitionBy: _by_id,
    ops.Broadcast: _by_id,
    ops.AsyncFlatMap: _by_id,
    ops.WindowBy: _by_id,
    ops.JoinStreams: _by_id,
    ops.TableOf: lambda op: f"table {op.stream}",
    ops.JoinTable: _by_id,
    ops.JoinTables: _by_id,
    ops.PutTo: lambda op: f"send_to table {op.table}",
    ops.JoinRemote: _by_id,
    ops.PutRemote: lambda op: f"send_to remote table {op.table.name}",
    ops.Split: lambda op: _with("split", place(op.origin)),
    ops.Branch: lambda op: _with("branch", str(op.place + 1), place(op.origin)),
    ops.Process: _by_id,
    ops.Side: lambda op: f"side {op.tag.name}",
    ops.SendTo: lambda op: f"send_to {op.stream}",
    ops.SinkTo: _by_id,
}

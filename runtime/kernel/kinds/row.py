"""What the kernel knows of a kind of operator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....dsl import operators as ops
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..code.stage_graph import StageGraph
from ..environment import StageEnvironment
from ..stateful_operator import StatefulOperator

WriteCode = Callable[[CodeWriter, CodePath, Any, Variables, int], None]
"""Writes the code where a message reaches an operator: the compiler, the code path, the operator, the variables that
hold the message, and the depth of the code."""
Define = Callable[[CodeWriter, str], None]
"""Writes a function of an operator's own, given its id."""
Bind = Callable[[StageEnvironment, Any], dict[str, Any]]
"""Returns the objects that the code of an operator uses, by name."""
MakeState = Callable[[StageEnvironment, Any, Any], StatefulOperator]
"""Makes the state of an operator, given the function that takes what it emits."""
Attach = Callable[[StageEnvironment, Any, Any], dict[str, Any]]
"""Returns the objects that need state or compiled functions, by name, given what `MakeState` is given."""


def writes_no_code(*_: Any) -> None:
    """No message reaches the operator on its way through the code: its messages start there."""


def _binds_nothing(*_: Any) -> dict[str, Any]:
    return {}


def _never(*_: Any) -> bool:
    return False


def always(*_: Any) -> bool:
    """Return True, for a fact that holds of a kind of operator in every graph."""
    return True


def _no_delay(_: ops.Operator) -> int:
    return 0


def if_followed(graph: StageGraph, operator: ops.Operator) -> bool:
    """Whether anything follows the changes of a table."""
    return not graph.silent(operator.id)


def if_time_counts(graph: StageGraph, operator: ops.Operator) -> bool:
    """Whether the watermark matters behind an operator."""
    return graph.meets_time(operator.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKind:
    """A kind of operator as the kernel knows it.

    `write` writes its code, and `define` its own function in the code of the stage, if it has one. `bind` returns the
    objects that the code uses. After the code is loaded, `make_state` makes its state, and `attach` returns the objects
    that need state or loaded functions. `emits_at_once` says whether a message may make it emit immediately, not only
    when the watermark advances. `delay` is by how many ms its outputs may be behind its watermark. `joins_rows` says
    that what it emits are rows of two sides, joined, which errors then call so.
    """

    write: WriteCode
    define: Define | None = None
    bind: Bind = _binds_nothing
    make_state: MakeState | None = None
    attach: Attach = _binds_nothing
    emits_at_once: Callable[[StageGraph, Any], bool] = _never
    delay: Callable[[Any], int] = _no_delay
    joins_rows: bool = False

"""The kernel's table of kinds: a row for each kind of operator. A row lies in the module that is named as the module of
the operator's record in `dsl.operators`.

Comes in: an operator, the compiler, and the environment of a task. Goes out: the code of the operator, the objects that
the code uses, and its state. Read `row` first, then `window`; `writing` and `binding` have what several kinds share.
"""

from ....dsl.operators.kind_table import KindTable
from . import async_call, border, deduplicate, join, process, stateless, table, terminal, window
from .row import KernelKind

__all__ = ["KERNEL_KINDS", "KernelKind"]

KERNEL_KINDS = KindTable(
    "runtime/kernel/kinds",
    {
        **stateless.ROWS,
        **async_call.ROWS,
        **border.ROWS,
        **window.ROWS,
        **join.ROWS,
        **table.ROWS,
        **deduplicate.ROWS,
        **process.ROWS,
        **terminal.ROWS,
    },
)

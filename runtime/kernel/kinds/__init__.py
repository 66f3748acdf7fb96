"""The kernel's table of kinds: a row for each kind of operator. A row stands in `ROWS` of the module that is
named as the module of the operator's record in `dsl.operators`; a new module needs no line here.

Comes in: an operator, the compiler, and the environment of a task. Goes out: the code of the operator, the objects that
the code uses, and its state. Read `row` first, then `window`; `writing` and `binding` have what several kinds share.
"""

from ....dsl.operators.kind_table import KindTable
from .row import KernelKind

__all__ = ["KERNEL_KINDS", "KernelKind"]

KERNEL_KINDS: KindTable[KernelKind] = KindTable.gathered("runtime/kernel/kinds", __name__, __path__)

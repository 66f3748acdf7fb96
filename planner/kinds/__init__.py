"""The planner's table of kinds: a row for each kind of operator. A row lies in the module that is named as the module
of the operator's record in `dsl.operators`.

Comes in: an operator and the types of its inputs. Goes out: the types that it emits, its options as text, the streams
that it writes, and what gives its state a meaning. Raises PlanError where the types do not suit it. Read `row` first,
then `window`.
"""

from ...dsl.operators.kind_table import KindTable
from . import async_call, border, deduplicate, join, process, stateless, table, terminal, window
from .row import OperatorState, PlannerKind

__all__ = ["PLANNER_KINDS", "OperatorState", "PlannerKind"]

PLANNER_KINDS = KindTable(
    "planner/kinds",
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

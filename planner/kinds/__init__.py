"""The planner's table of kinds: a row for each kind of operator. A row stands in `ROWS` of the module that
is named as the module of the operator's record in `dsl.operators`; a new module needs no line here.

Comes in: an operator and the types of its inputs. Goes out: the types that it emits, its options as text, the streams
that it writes, and what gives its state a meaning. Raises PlanError where the types do not suit it. Read `row` first,
then `window`.
"""

from ...dsl.operators.kind_table import KindTable
from .row import OperatorState, PlannerKind

__all__ = ["PLANNER_KINDS", "OperatorState", "PlannerKind"]

PLANNER_KINDS: KindTable[PlannerKind] = KindTable.gathered("planner/kinds", __name__, __path__)

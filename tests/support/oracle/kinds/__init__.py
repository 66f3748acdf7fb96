"""The oracle's table of kinds: a row for each kind of operator. A row stands in `ROWS` of the module that is
named as the module of the operator's record in `dsl.operators`; a new module needs no line here.

Comes in: an operator, and a message that reaches it. Goes out: what the operator emits, writes and keeps. Read `row`
first, then `stateless`.
"""

from fluvial.dsl.operators.kind_table import KindTable
from oracle.kinds.row import OracleKind

__all__ = ["ORACLE_KINDS", "OracleKind"]

ORACLE_KINDS: KindTable[OracleKind] = KindTable.gathered("tests/support/oracle/kinds", __name__, __path__)

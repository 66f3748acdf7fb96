"""The oracle's table of kinds: a row for each kind of operator. A row lies in the module that is named as the module of
the operator's record in `dsl.operators`.

Comes in: an operator, and a message that reaches it. Goes out: what the operator emits, writes and keeps. Read `row`
first, then `stateless`.
"""

from fluvial.dsl.operators.kind_table import KindTable
from oracle.kinds import async_call, border, deduplicate, join, process, stateless, table, terminal, window
from oracle.kinds.row import OracleKind

__all__ = ["ORACLE_KINDS", "OracleKind"]

ORACLE_KINDS = KindTable(
    "tests/support/oracle/kinds",
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

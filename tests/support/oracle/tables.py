"""Tables as the oracle keeps them: rows as bytes, and joined rows made when they are looked up."""

from collections.abc import Callable, Mapping
from typing import Any

from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from oracle.wire import decode, encode

Rows = Mapping[str, Mapping[bytes, bytes]]


class KeptTables:
    """The rows of a pipeline's tables, by table and key."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._tables = {op.id: op for op in pipeline.operators if isinstance(op, ops.TableOf)}
        self._joined = {op.id: op for op in pipeline.operators if isinstance(op, ops.JoinTables)}
        self._rows: dict[str, dict[bytes, bytes]] = {id: {} for id in self._tables}

    def put(self, table: str, key: bytes | None, value: Any) -> None:
        """The row of a key; None deletes it, and nothing is kept without key."""
        if key is None:
            return
        if value is None:
            self._rows[table].pop(key, None)
        else:
            self._rows[table][key] = encode(self._tables[table].value, value)

    def row(self, table: str, key: bytes | None) -> Any:
        """The row of a key, made anew; None if there is none."""
        if key is None:
            return None
        if table in self._tables:
            found = self._rows[table].get(key)
            return None if found is None else decode(self._tables[table].value, found)
        operator = self._joined[table]
        left, right = (self.row(source, key) for source in operator.inputs)
        return operator.fn(left, right) if _JOINS[operator.how](left, right) else None

    def snapshot(self) -> Rows:
        return {id: dict(rows) for id, rows in self._rows.items()}

    def restore(self, kept: Rows) -> None:
        self._rows = {id: dict(rows) for id, rows in kept.items()}


_JOINS: Mapping[str, Callable[[Any, Any], bool]] = {
    "inner": lambda left, right: left is not None and right is not None,
    "left": lambda left, _: left is not None,
    "outer": lambda left, right: left is not None or right is not None,
}

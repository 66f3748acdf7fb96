"""Joined tables that are rebuilt at a start, because their two tables have changed without them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from ....dsl import operators as ops
from ...process.interruptions import INTERRUPTIONS
from ..stateful_operator import StatefulOperator
from ..time.position import Position
from .tables import TableOperator

Fail = Callable[[str, bytes, None, int, BaseException], None]
"""Takes the error of a row that cannot be joined: operator, key, None, time 0, error."""


class JoinedTables:
    """The joined tables of a task that are `stale`, and their rebuilding. A joined table is stale if it was added or
    reset, or if the pipeline ran without it while its tables changed."""

    def __init__(
        self,
        operators: Iterable[ops.Operator],
        stateful: Mapping[str, StatefulOperator],
        position: Position,
        fail: Fail,
    ) -> None:
        self._tables = {id: one for id, one in stateful.items() if isinstance(one, TableOperator)}
        tables = {one.id: one.inputs for one in operators if one.is_table}
        # The other tables follow a source, or have no input.
        self._inputs = {id: inputs for id, inputs in tables.items() if inputs and tables.keys() >= set(inputs)}
        self._versions, self._built = dict(position.versions), dict(position.built)
        self._fail = fail
        self.stale: list[str] = []
        # In the order of the pipeline: a table comes before the tables that are joined from it.
        for id, inputs in self._inputs.items():
            if self._built.get(id) != self._version_of(inputs) or any(one in self.stale for one in inputs):
                self.stale.append(id)
        self._steps = self._rows()

    def _version_of(self, inputs: Iterable[str]) -> int:
        return sum(self._versions.get(one, 0) for one in inputs)

    def rebuild(self, most: int) -> bool:
        """Rebuild about so many rows, without emitting the changes; returns whether more are left."""
        for _ in islice(self._steps, most):
            pass
        return bool(self.stale)

    def _rows(self) -> Iterator[None]:
        for id in [*self.stale]:
            table = self._tables[id]
            for key in table.each_key():
                self._make(id, key)
                yield
            for other in self._inputs[id]:
                for key in self._tables[other].each_key():
                    if not table.has(key):
                        self._make(id, key)
                    yield
            self.stale.remove(id)

    def _make(self, id: str, key: bytes) -> None:
        try:
            self._tables[id].renew(key)
        except INTERRUPTIONS:
            raise
        # Of the user's function that joins the rows: that of this key fails alone, by the policy of the pipeline.
        except BaseException as error:
            self._fail(id, key, None, 0, error)

    def add_to(self, position: Position) -> None:
        """Add to a position the version of each table, and the versions that joined tables are built from. The version
        of a table is the number of commits that have changed it."""
        for id, table in self._tables.items():
            if table.changed:
                self._versions[id] = self._versions.get(id, 0) + 1
        for id, inputs in self._inputs.items():
            if id not in self.stale:
                self._built[id] = self._version_of(inputs)
        position.versions, position.built = dict(self._versions), dict(self._built)

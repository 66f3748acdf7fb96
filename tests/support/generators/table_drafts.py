"""Tables of a random pipeline in the making: those that its streams look rows up in."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from fluvial.dsl.operators import How
from generators.case_joins import JOINS
from generators.case_keys import KeyType
from generators.described_tables import TablePair, TableSource

Table = TableSource | TablePair
Choice = int | Literal["new", "pair"]
"""A table that there is, one that is to be made, or one to be made of two."""

MOST_TABLES = 4


class TableDrafts:
    """The tables so far and their stages; `pick` chooses one of several, `small` a number."""

    def __init__(self, pick: Callable[[Any], Any], small: Callable[[], int]) -> None:
        self._pick = pick
        self._small = small
        self.tables: list[Table] = []
        self.stages: list[int] = []

    def choices(self, key: KeyType | None, may_meet: Callable[[int], bool]) -> list[Choice]:
        """What messages with such a key may look rows up in, if their stage may meet the table's."""
        if key not in ("str", "int"):
            return []
        found: list[Choice] = []
        found += [number for number, stage in enumerate(self.stages) if self._key(number) == key and may_meet(stage)]
        room = MOST_TABLES - len(self.tables)
        if room > 0:
            found.append("new")
        if room > 2:
            found.append("pair")
        return found

    def chosen(self, choice: Choice, key: KeyType | None, stage: int) -> int:
        """The number of the table that was chosen, made if it is not there."""
        assert key in ("str", "int")
        if isinstance(choice, int):
            return choice
        if choice == "new":
            return self._add(TableSource(f"rows-{len(self.tables)}", key), stage)
        left, right = (self.chosen("new", key, stage) for _ in range(2))
        pair = TablePair(left, right, self._pick(get_args(How)), self._pick(JOINS), self._small())
        return self._add(pair, stage)

    def _add(self, table: Table, stage: int) -> int:
        self.tables.append(table)
        self.stages.append(stage)
        return len(self.tables) - 1

    def _key(self, number: int) -> KeyType:
        table = self.tables[number]
        return table.key if isinstance(table, TableSource) else self._key(table.left)

"""Tables that say what one phase, such as the planner, knows of each kind of operator."""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from .base import Operator

R = TypeVar("R")


class KindTable(Generic[R]):
    """The rows of a phase by kind of operator. Raises NotImplementedError, which names the table, for a kind that has
    none.

    >>> from fluvial.dsl import Pipeline, operators
    >>> verbs = KindTable("verbs", {operators.Source: "reads"})
    >>> verbs[Pipeline("p").stream("clicks", value=str).operator]
    'reads'
    """

    def __init__(self, name: str, rows: Mapping[type[Operator], R]) -> None:
        self._name = name
        self._rows = rows

    def __getitem__(self, operator: Operator) -> R:
        row = self._rows.get(type(operator))
        if row is None:
            raise NotImplementedError(f"{self._name} has no row for the kind of operator {type(operator).__name__}")
        return row

    def __iter__(self) -> Iterator[type[Operator]]:
        return iter(self._rows)

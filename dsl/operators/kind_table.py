"""Tables that say what one phase, such as the planner, knows of each kind of operator."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

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

    @classmethod
    def gathered(cls, name: str, package: str, path: Iterable[str]) -> "KindTable[R]":
        """The table of all rows in the modules of a package, each of which has them in `ROWS`, or has none."""
        rows: dict[type[Operator], Any] = {}
        for module in iter_modules(path):
            rows |= getattr(import_module(f"{package}.{module.name}"), "ROWS", {})
        return cls(name, rows)

    def __getitem__(self, operator: Operator) -> R:
        row = self._rows.get(type(operator))
        if row is None:
            raise NotImplementedError(f"{self._name} has no row for the kind of operator {type(operator).__name__}")
        return row

    def __iter__(self) -> Iterator[type[Operator]]:
        return iter(self._rows)

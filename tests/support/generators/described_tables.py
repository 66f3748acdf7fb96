"""Descriptions of tables, and how descriptions print."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from fluvial.dsl.operators import How


class Compact:
    """Prints as the call that makes it, without the fields that have their defaults."""

    def __repr__(self) -> str:
        parts: list[str] = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING or value != field.default:
                parts.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class TableSource(Compact):
    """A table of events, by their word or their number; `filled` by the pipeline, or read from its stream."""

    stream: str
    key: Literal["str", "int"]
    filled: bool = False


@dataclass(frozen=True, repr=False)
class TablePair(Compact):
    """A table of the rows that two tables before it have together."""

    left: int
    right: int
    how: How
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class RemoteRows(Compact):
    """A table of events that somebody else keeps: its rows are made of their keys by `fn`, with a small number.

    Calls `wait`, so that others get their turn; `cached` rows are kept; `batch` keys make one call, or 0 for a call
    each. One that is `written` is not read; rows that come `in_order` do so for each key.
    Calls may use the `client` of all.
    """

    fn: str
    number: int
    waits: bool = False
    cached: bool = False
    batch: int = 0
    in_flight: int = 100
    written: bool = False
    in_order: bool = False
    client: bool = False

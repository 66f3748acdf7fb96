"""Operators that keep nothing from one message to the next."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..message import Message
from .base import Emits, Numbered, Operator, PerMessage
from .labels import call_text, line_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Operator):
    """Reads a stream. `out_of_order` and `idle_after` in ms; `value` and `key` are types or Serdes; `bootstrap` before
    other inputs at a start, and those of a higher `priority` before others at any time."""

    stream: str
    value: Any
    key: Any = None
    timestamp: Callable[[Any], int] | None = None
    out_of_order: int = 0
    idle_after: int | None = None
    bootstrap: bool = False
    priority: int = 0
    kind: ClassVar[str] = "stream"
    decodes_values: ClassVar[bool] = True

    @property
    def plain_label(self) -> str:
        """`stream clicks`, by the stream that it reads."""
        return f"stream {self.stream}"

    @property
    def name(self) -> str:
        """The stream that it reads, of which a pipeline has one source."""
        return self.stream

    @property
    def reads(self) -> str:
        """The name of the stream of the system whose messages it reads."""
        return self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(PerMessage):
    """Turns each value into another, that which `fn` returns for it."""

    kind: ClassVar[str] = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMessages(PerMessage):
    """Turns each message into another, key, timestamp and headers included."""

    fn: Callable[[Message[Any]], Message[Any]]
    kind: ClassVar[str] = "map_messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(PerMessage):
    """Keeps the messages whose value satisfies `fn`."""

    kind: ClassVar[str] = "filter"
    emits: ClassVar[Emits] = "some"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Numbered):
    """Sends each message to one of its branches: that of the first predicate that holds, else the last one."""

    predicates: tuple[Callable[[Any], Any], ...]
    kind: ClassVar[str] = "split"
    emits: ClassVar[Emits] = "routed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Numbered):
    """Passes on the messages of one branch of a split; `index` counts branches from 0."""

    index: int
    kind: ClassVar[str] = "branch"
    emits: ClassVar[Emits] = "some"

    @property
    def plain_label(self) -> str:
        """Its kind, its number from 1 and its line: `branch(2, visits.py:12)`."""
        return call_text(self.kind, str(self.index + 1), line_of(self.origin))

    @property
    def way(self) -> str:
        """`branch 2`: its number among the branches of the split, from 1."""
        return f"branch {self.index + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap(PerMessage):
    """Turns each value into the values, any number of them, that `fn` returns for it."""

    fn: Callable[[Any], Iterable[Any]]
    kind: ClassVar[str] = "flat_map"
    emits: ClassVar[Emits] = "many"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Numbered):
    """Passes on the messages of several inputs, in no order between them."""

    kind: ClassVar[str] = "merge"

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
    other inputs."""

    stream: str
    value: Any
    key: Any = None
    timestamp: Callable[[Any], int] | None = None
    out_of_order: int = 0
    idle_after: int | None = None
    bootstrap: bool = False
    kind: ClassVar[str] = "stream"
    decodes_values: ClassVar[bool] = True

    @property
    def plain_label(self) -> str:
        return f"stream {self.stream}"

    @property
    def name(self) -> str:
        return self.stream

    @property
    def reads(self) -> str:
        return self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(PerMessage):
    """Turns each value into another."""

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
    """The messages of one branch of a split; `place` counts from 0."""

    place: int
    kind: ClassVar[str] = "branch"
    emits: ClassVar[Emits] = "some"

    @property
    def plain_label(self) -> str:
        return call_text(self.kind, str(self.place + 1), line_of(self.origin))

    @property
    def way(self) -> str:
        return f"branch {self.place + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap(PerMessage):
    """Turns each value into any number of values."""

    fn: Callable[[Any], Iterable[Any]]
    kind: ClassVar[str] = "flat_map"
    emits: ClassVar[Emits] = "many"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Numbered):
    """Passes on the messages of several inputs."""

    kind: ClassVar[str] = "merge"

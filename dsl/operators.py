"""Operators: frozen records of what the user asked for, and where in their file; they do not run."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .aggregates import Aggregate
from .message import Message
from .origin import Origin
from .policy import Retry
from .processing import KeyedProcessor, Tag
from .remote import RemoteTable
from .sink import Sink
from .triggers import Trigger
from .windows import Assigner

Role = Literal["non-terminal", "terminal", "both"]
Order = Literal["key", "input", "none"]
How = Literal["inner", "left", "outer"]
Retain = Literal["all", "latest"]
Time = Literal["event", "processing"]
Lookup = Literal["inner", "left"]

NAMELESS: Any = object()
"""The id of an operator that the pipeline is to number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A node of a pipeline's graph.

    A terminal operator is where a message lands; a non-terminal one passes on what it is given; one that is both may
    keep a message and later emit.
    """

    id: str
    inputs: tuple[str, ...]
    origin: Origin
    kind: ClassVar[str]
    role: ClassVar[Role] = "non-terminal"

    @property
    def fed_by(self) -> tuple[str, ...]:
        """The inputs whose messages it is given: all but a table that it looks up."""
        return self.inputs


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Operator):
    """Turns each value into another."""

    fn: Callable[[Any], Any]
    kind: ClassVar[str] = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMessages(Operator):
    """Turns each message into another, key, timestamp and headers included."""

    fn: Callable[[Message[Any]], Message[Any]]
    kind: ClassVar[str] = "map_messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Operator):
    """Keeps the messages whose value satisfies `fn`."""

    fn: Callable[[Any], Any]
    kind: ClassVar[str] = "filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Operator):
    """Sends each message to one of its branches: that of the first predicate that holds, else the last one."""

    predicates: tuple[Callable[[Any], Any], ...]
    kind: ClassVar[str] = "split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Operator):
    """The messages of one branch of a split; `place` counts from 0."""

    place: int
    kind: ClassVar[str] = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap(Operator):
    """Turns each value into any number of values."""

    fn: Callable[[Any], Iterable[Any]]
    kind: ClassVar[str] = "flat_map"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncFlatMap(Operator):
    """Turns each value into any number of values, with many calls under way at once. `timeout` in ms."""

    fn: Callable[[Any], Awaitable[Iterable[Any]]]
    max_in_flight: int
    order: Order
    timeout: int
    retry: Retry | None
    kind: ClassVar[str] = "async_flat_map"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRemote(AsyncFlatMap):
    """Turns each message and the row that a remote table has for its key into a value: `joined(value, row)`."""

    table: RemoteTable[Any, Any]
    joined: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRemote(AsyncFlatMap):
    """Writes each message to a remote table, as the row of its key."""

    table: RemoteTable[Any, Any]
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Operator):
    """Passes on the messages of several inputs."""

    kind: ClassVar[str] = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Border(Operator):
    """Writes each message to an intermediate stream, which the next stage reads as values of type `value`."""

    value: Any
    role: ClassVar[Role] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBy(Border):
    """A border that gives each message the key that `fn` says, and brings equal keys together."""

    fn: Callable[[Any], Any]
    key: Any
    kind: ClassVar[str] = "partition_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast(Border):
    """A border behind which every task has every message."""

    kind: ClassVar[str] = "broadcast"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBy(Operator):
    """Gathers the messages of each key and window into one value, and emits it as a pane. `lateness` in ms."""

    assigner: Assigner
    aggregate: Aggregate[Any, Any]
    trigger: Trigger | None
    late_trigger: Trigger | None
    lateness: int
    late_to: str | None
    accumulate: bool
    time: Time = "event"
    kind: ClassVar[str] = "window"
    role: ClassVar[Role] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStreams(Operator):
    """Brings together rows of two inputs, the left and the right one, by key and time. `within` in ms."""

    fn: Callable[[Any, Any], Any]
    within: int
    how: How
    retain: Retain
    time: Time = "event"
    kind: ClassVar[str] = "join"
    role: ClassVar[Role] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf(Operator):
    """Keeps the latest row of each key. Its input is the stream of the table; it has none if the pipeline fills it."""

    stream: str
    key: Any
    value: Any
    kind: ClassVar[str] = "table"
    role: ClassVar[Role] = "both"


def table_id(name: str) -> str:
    """The id of the table of a name, which is that of its stream: ids have no dots."""
    return name.replace(".", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Operator):
    """Hands the messages of each key to a processor of the user's, which keeps state and sets timers."""

    processor: KeyedProcessor[Any, Any, Any]
    kind: ClassVar[str] = "process"
    role: ClassVar[Role] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Operator):
    """What a processor emits under a tag."""

    tag: Tag[Any]
    kind: ClassVar[str] = "side"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTable(Operator):
    """Turns each message and the row that a table has for its key into a value; inputs: the stream, the table."""

    fn: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"

    @property
    def fed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def table(self) -> str:
        """The id of the table that it looks up."""
        return self.inputs[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTables(Operator):
    """A table of the rows that two tables, the left and the right one, have for each key."""

    fn: Callable[[Any, Any], Any]
    how: How
    kind: ClassVar[str] = "join"
    role: ClassVar[Role] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTo(Operator):
    """Makes each message the row of its key in a table of the pipeline's own."""

    table: str
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTo(Operator):
    """Writes each message to a stream; `value` is a type or Serde, None where the planner is to tell."""

    stream: str
    key: Callable[[Any], Any] | None
    value: Any
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTo(Operator):
    """Hands each message to a sink of the user's."""

    sink: Sink[Any]
    kind: ClassVar[str] = "sink"
    role: ClassVar[Role] = "terminal"

"""Operators: frozen records of what the user asked for, and where in their file; they do not run."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .aggregates import Aggregate
from .error_policy import Retry
from .labels import call_text, function_name, line_of
from .message import Message
from .origin import Origin
from .processor import KeyedProcessor, Tag, clock_of
from .remote_table import RemoteTable
from .sink import Sink
from .triggers import Trigger
from .windows import Assigner

Role = Literal["non-terminal", "terminal", "both"]
Emits = Literal["one", "routed", "some", "many"]
"""How many messages an operator emits for each that it is given: one to all that follow, one to a single follower, none
or one, or any number."""
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
    keep a message and later emit. What planner and engines ask of an operator stands here, so that they need not know
    its kind: what a kind does not say otherwise holds for it as for all.
    """

    id: str
    inputs: tuple[str, ...]
    origin: Origin
    kind: ClassVar[str]
    role: ClassVar[Role] = "non-terminal"
    emits: ClassVar[Emits] = "one"
    is_border: ClassVar[bool] = False
    """Whether it writes an intermediate stream, which the next stage reads."""
    is_table: ClassVar[bool] = False
    """Whether it keeps the rows of a table."""
    is_async: ClassVar[bool] = False
    """Whether it makes asynchronous calls."""
    looks_up: ClassVar[bool] = False
    """Whether it passes messages on with the rows that a table has for their keys."""
    meets_by_time: ClassVar[bool] = False
    """Whether it brings those messages together whose times are near each other."""

    @property
    def label(self) -> str:
        """A short text that tells an operator from its neighbours: `map(to_visit)`, `filter(lambda, visits.py:12)`,
        `stream clicks`, `window visits`."""
        return f"{self.kind} {self.id}"

    @property
    def name(self) -> str:
        """What the user calls it, and its state and messages are found by; empty where the pipeline numbers it."""
        return self.id

    @property
    def way(self) -> str:
        """The function or branch that messages pass in it, if that tells two ways of messages apart; else empty."""
        return ""

    @property
    def fed_by(self) -> tuple[str, ...]:
        """The inputs whose messages it is given: all but a table that it looks up."""
        return self.inputs

    @property
    def reads(self) -> str | None:
        """The stream that it reads; None unless it is a source."""
        return None

    @property
    def uses_table(self) -> str | None:
        """The id of the table that it looks up or, being terminal, fills; None if there is none."""
        return None

    @property
    def fills(self) -> str | None:
        """The id of the table that it sends rows to; None if there is none."""
        return self.uses_table if self.role == "terminal" else None

    @property
    def time_domain(self) -> Time:
        """By which time it brings messages together: their own, or that of the clock."""
        return "event"

    @property
    def follows_clock(self) -> bool:
        """Whether processing time moves something in it."""
        return self.time_domain == "processing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered(Operator):
    """An operator whose id counts the operators before it, and changes when one is added."""

    @property
    def label(self) -> str:
        return call_text(self.kind, line_of(self.origin))

    @property
    def name(self) -> str:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerMessage(Numbered):
    """Calls a function with each message or value."""

    fn: Callable[[Any], Any]

    @property
    def label(self) -> str:
        name = function_name(self.fn)
        return call_text(self.kind, name, line_of(self.origin) if name == "lambda" else "")

    @property
    def way(self) -> str:
        name = function_name(self.fn)
        return "" if name == "lambda" else name


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

    @property
    def label(self) -> str:
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
    def label(self) -> str:
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
class AsyncFlatMap(Operator):
    """Turns each value into any number of values, with many calls under way at once. `timeout` in ms."""

    fn: Callable[[Any], Awaitable[Iterable[Any]]]
    max_in_flight: int
    order: Order
    timeout: int
    retry: Retry | None
    kind: ClassVar[str] = "async_flat_map"
    emits: ClassVar[Emits] = "many"
    is_async: ClassVar[bool] = True

    @property
    def remote(self) -> RemoteTable[Any, Any] | None:
        """The remote table that its calls go to; None where the function is the user's."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRemote(AsyncFlatMap):
    """Turns each message and the row that a remote table has for its key into a value: `joined(value, row)`."""

    table: RemoteTable[Any, Any]
    joined: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"
    looks_up: ClassVar[bool] = True

    @property
    def remote(self) -> RemoteTable[Any, Any]:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRemote(AsyncFlatMap):
    """Writes each message to a remote table, as the row of its key."""

    table: RemoteTable[Any, Any]
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"

    @property
    def label(self) -> str:
        return f"send_to remote table {self.table.name}"

    @property
    def remote(self) -> RemoteTable[Any, Any]:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Numbered):
    """Passes on the messages of several inputs."""

    kind: ClassVar[str] = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Border(Operator):
    """Writes each message to an intermediate stream, which the next stage reads as values of type `value`."""

    value: Any
    role: ClassVar[Role] = "terminal"
    is_border: ClassVar[bool] = True
    to_all: ClassVar[bool] = False
    """Whether every task behind it reads all messages, not those of its partitions alone."""


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
    to_all: ClassVar[bool] = True


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
    emits: ClassVar[Emits] = "many"
    meets_by_time: ClassVar[bool] = True

    @property
    def time_domain(self) -> Time:
        return self.time


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
    emits: ClassVar[Emits] = "many"
    meets_by_time: ClassVar[bool] = True

    @property
    def time_domain(self) -> Time:
        return self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf(Operator):
    """Keeps the latest row of each key. Its input is the stream of the table; it has none if the pipeline fills it."""

    stream: str
    key: Any
    value: Any
    kind: ClassVar[str] = "table"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "some"
    is_table: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"table {self.stream}"

    @property
    def name(self) -> str:
        return self.stream


def table_id(name: str) -> str:
    """The id of the table of a name, which is that of its stream: ids have no dots."""
    return name.replace(".", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Operator):
    """Hands the messages of each key to a processor of the user's, which keeps state and sets timers."""

    processor: KeyedProcessor[Any, Any, Any]
    kind: ClassVar[str] = "process"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"

    @property
    def follows_clock(self) -> bool:
        return clock_of(self.processor) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Operator):
    """What a processor emits under a tag."""

    tag: Tag[Any]
    kind: ClassVar[str] = "side"
    emits: ClassVar[Emits] = "many"

    @property
    def label(self) -> str:
        return f"side {self.tag.name}"

    @property
    def name(self) -> str:
        return f"side {self.tag.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTable(Operator):
    """Turns each message and the row that a table has for its key into a value; inputs: the stream, the table."""

    fn: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"
    emits: ClassVar[Emits] = "some"
    looks_up: ClassVar[bool] = True

    @property
    def fed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def uses_table(self) -> str:
        return self.inputs[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTables(Operator):
    """A table of the rows that two tables, the left and the right one, have for each key."""

    fn: Callable[[Any, Any], Any]
    how: How
    kind: ClassVar[str] = "join"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "some"
    is_table: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTo(Operator):
    """Makes each message the row of its key in a table of the pipeline's own."""

    table: str
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"

    @property
    def label(self) -> str:
        return f"send_to table {self.table}"

    @property
    def uses_table(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTo(Operator):
    """Writes each message to a stream; `value` is a type or Serde, None where the planner is to tell."""

    stream: str
    key: Callable[[Any], Any] | None
    value: Any
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"

    @property
    def label(self) -> str:
        return f"send_to {self.stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTo(Operator):
    """Hands each message to a sink of the user's."""

    sink: Sink[Any]
    kind: ClassVar[str] = "sink"
    role: ClassVar[Role] = "terminal"

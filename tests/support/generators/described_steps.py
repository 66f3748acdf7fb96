"""Descriptions of the steps of pipelines: frozen and printable."""

from dataclasses import dataclass
from typing import Literal

from fluvial.dsl.operators import How, Retain
from generators.case_keys import KeyType
from generators.described_tables import Compact


@dataclass(frozen=True, repr=False)
class Source(Compact):
    """A stream of events. `time`: the record's timestamp, or `at` of the event, by a function that may raise.

    The keys of a keyed source are the event's word, or its number where they are int. Durations here are in ms.
    """

    stream: str
    key: Literal["str", "int"] | None = None
    time: Literal["record", "at", "at_if_good"] = "record"
    out_of_order: int = 0


@dataclass(frozen=True, repr=False)
class Step(Compact):
    """Something done to the events of node `of`. Nodes are numbered from 0: the sources, then the steps."""

    of: int


@dataclass(frozen=True, repr=False)
class Map(Step):
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class Filter(Step):
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class FlatMap(Step):
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class Async(Step):
    """The `fn` is a flat_map's; where it `waits`, others get their turn in between. It may use the `client` of all, and
    take a `batch` of so many events."""

    fn: str
    number: int
    order: Literal["key", "input", "none"] = "key"
    waits: bool = False
    in_flight: int = 100
    client: bool = False
    batch: int = 0


@dataclass(frozen=True, repr=False)
class Messages(Step):
    """`map_messages`."""

    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class Merge(Step):
    others: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Border(Step):
    """`partition_by`; `typed` says the type of values, else the planner is to know."""

    key: KeyType
    fn: str
    number: int
    typed: bool = False


@dataclass(frozen=True, repr=False)
class Broadcast(Step):
    """`broadcast`; `typed` is as for a border."""

    typed: bool = False


@dataclass(frozen=True, repr=False)
class When(Compact):
    """A trigger: whichever comes first of those that are given, once or again and again."""

    count: int | None = None
    first: int | None = None
    last: int | None = None
    repeats: bool = False


@dataclass(frozen=True, repr=False)
class WindowStep(Step):
    """A window, and a map that makes events of its panes again: `back`.

    The panes themselves are sent to the stream `panes`, and, where they cross, pass a border before they are mapped.
    `every` is for hopping windows; those without end have no size.
    """

    kind: Literal["tumbling", "session", "hopping", "unbounded"]
    size: int
    aggregate: str
    lateness: int = 0
    late_to: str | None = None
    accumulate: bool = True
    panes: str | None = None
    crosses: bool = False
    back: Literal["event_of", "event_of_good"] = "event_of"
    every: int = 0
    trigger: When | None = None
    late_trigger: When | None = None


@dataclass(frozen=True, repr=False)
class Join(Step):
    """A join of `of`, the left side, with `other`."""

    other: int
    within: int
    how: How
    retain: Retain
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class Lookup(Step):
    """A join of `of` with a table."""

    table: int
    how: Literal["inner", "left"]
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class RemoteLookup(Step):
    """A join of `of` with a remote table."""

    remote: int
    how: Literal["inner", "left"]
    fn: str
    number: int


@dataclass(frozen=True, repr=False)
class Split(Step):
    """A split by filters; the rest is sent to `rest-{node}`, the branch of a second one to `second-{node}`."""

    fns: tuple[str, ...]
    number: int


@dataclass(frozen=True, repr=False)
class Put(Step):
    """`send_to` a table, as an end of its own: no step may read it."""

    table: int


@dataclass(frozen=True, repr=False)
class RemotePut(Step):
    """`send_to` a remote table, as an end of its own: no step may read it."""

    remote: int


@dataclass(frozen=True, repr=False)
class Process(Step):
    """A processor; its side output, if it is read, goes to the stream `aside`."""

    processor: str
    number: int
    fails: bool = False
    aside: str | None = None


@dataclass(frozen=True, repr=False)
class Deduplicate(Step):
    """`by` is a key's function, or None. What is passed on `bare` has lost what duplicates differ in: its headers, and
    with them its key."""

    within: int
    by: str | None = None
    number: int = 0
    bare: bool = False


@dataclass(frozen=True, repr=False)
class Send(Step):
    """`send_to`, as an end of its own: no step may read it. `form` is "event", or a map to something else before."""

    stream: str
    key: KeyType | None = None
    key_fn: str = ""
    form: str = "event"
    number: int = 0
    typed: bool = False

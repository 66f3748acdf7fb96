"""Descriptions of pipelines: frozen and printable, and what they are built into."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import case_functions as given
import case_processors
from case_functions import KeyType
from described_tables import Compact, TablePair, TableSource
from fluvial.dsl import (
    Pipeline,
    Trigger,
    after,
    after_count,
    any_of,
    dead_letter,
    fail,
    hopping,
    repeat,
    session,
    skip,
    tumbling,
    unbounded,
)
from fluvial.dsl.operators import How, Retain

Mode = Literal["on_time", "late"]
OnError = Literal["fail", "skip", "dead_letter"]


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
    """The `fn` is a flat_map's; where it `waits`, others get their turn in between."""

    fn: str
    number: int
    order: Literal["key", "input", "none"] = "key"
    waits: bool = False
    in_flight: int = 100


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
class Split(Step):
    """A split by filters; the rest is sent to `rest-{node}`, the branch of a second one to `second-{node}`."""

    fns: tuple[str, ...]
    number: int


@dataclass(frozen=True, repr=False)
class Put(Step):
    """`send_to` a table, as an end of its own: no step may read it."""

    table: int


@dataclass(frozen=True, repr=False)
class Process(Step):
    """A processor; its side output, if it is read, goes to the stream `aside`."""

    processor: str
    number: int
    fails: bool = False
    aside: str | None = None


@dataclass(frozen=True, repr=False)
class Send(Step):
    """`send_to`, as an end of its own: no step may read it. `form` is "event", or a map to something else before."""

    stream: str
    key: KeyType | None = None
    key_fn: str = ""
    form: str = "event"
    number: int = 0
    typed: bool = False


@dataclass(frozen=True, repr=False)
class Description(Compact):
    """A pipeline; what nobody reads or sends is sent to `out-{node}`."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...] = ()
    on_error: OnError = "fail"
    mode: Mode = "on_time"
    tables: tuple[TableSource | TablePair, ...] = ()

    @property
    def rows(self) -> tuple[TableSource, ...]:
        """The tables that are read from streams: whose rows are to be there before all else."""
        return tuple(table for table in self.tables if isinstance(table, TableSource) and not table.filled)

    def key_type(self, node: int) -> KeyType | None:
        """The type of key at a node, as the planner tracks it."""
        if node < len(self.sources):
            return self.sources[node].key
        step = self.steps[node - len(self.sources)]
        match step:
            case Border():
                return step.key
            case Messages():
                return None
            case Merge():
                types: set[KeyType | None] = {self.key_type(one) for one in (step.of, *step.others)}
                return types.pop() if len(types) == 1 else None
            case _:
                return self.key_type(step.of)


def has_time_triggers(description: Description) -> bool:
    """Whether some trigger waits for a time: then the panes depend on the steps that the watermark takes."""
    return any(_waits(step) for step in description.steps)


def has_time_triggers_behind_borders(description: Description) -> bool:
    """Whether some trigger that waits for a time is in a stage of its own, which may learn of time in larger steps."""
    behind = [False for _ in description.sources]
    for step in description.steps:
        behind.append(isinstance(step, Border) or any(behind[one] for one in _inputs(step)))
        if behind[-1] and _waits(step):
            return True
        behind[-1] |= isinstance(step, WindowStep) and step.crosses
    return False


def _inputs(step: Step) -> tuple[int, ...]:
    match step:
        case Merge():
            return step.of, *step.others
        case Join():
            return step.of, step.other
        case _:
            return (step.of,)


def _waits(step: Step) -> bool:
    triggers = (step.trigger, step.late_trigger) if isinstance(step, WindowStep) else ()
    return any(when is not None and (when.first, when.last) != (None, None) for when in triggers)


def build(description: Description) -> Pipeline:
    """The pipeline of a description, named `case`."""
    policy = {"fail": fail, "skip": skip, "dead_letter": dead_letter}[description.on_error]()
    pipeline = Pipeline("case", on_error=policy)
    nodes: list[Any] = [_source(pipeline, source) for source in description.sources]
    tables: list[Any] = []
    for table in description.tables:
        tables.append(_table(pipeline, tables, table))
    read: set[int] = set()
    for step in description.steps:
        number = len(nodes)
        read |= {*_inputs(step)}
        if isinstance(step, Send | Put):
            if isinstance(step, Send):
                _send(nodes[step.of], step)
            else:
                nodes[step.of].send_to(tables[step.table])
            read.add(number)
            nodes.append(None)
        elif isinstance(step, Lookup):
            looked_up = (given.JOINS | given.FAILING_JOINS)[step.fn](step.number)
            nodes.append(nodes[step.of].join(tables[step.table], looked_up, id=f"lookup-{number}", how=step.how))
        else:
            nodes.append(_build(description, nodes, step, number))
    for number, node in enumerate(nodes):
        if number not in read:
            node.send_to(f"out-{number}")
    return pipeline


def _source(pipeline: Pipeline, source: Source) -> Any:
    times = {"record": None, "at": given.at, "at_if_good": given.at_if_good}
    wait = timedelta(milliseconds=source.out_of_order)
    key = None if source.key is None else given.KEY_TYPES[source.key]
    return pipeline.stream(source.stream, value=given.Event, key=key, timestamp=times[source.time], out_of_order=wait)


def _table(pipeline: Pipeline, before: list[Any], table: TableSource | TablePair) -> Any:
    if isinstance(table, TableSource):
        return pipeline.table(table.stream, key=given.KEY_TYPES[table.key], value=given.Event)
    fn = given.JOINS[table.fn](table.number)
    return before[table.left].join(before[table.right], fn, id=f"pair-{len(before)}", how=table.how)


def _send(node: Any, step: Send) -> None:
    if step.form != "event":
        node = node.map(given.FORMS[step.form](step.number))
    key = None if step.key is None else ALL_KEYS[step.key_fn](step.number)
    value = given.Event if step.typed and step.form == "event" else None
    node.send_to(step.stream, key=key, value=value)


ALL_KEYS = given.KEYS["str"] | given.KEYS["int"] | given.KEYS["pair"] | given.FAILING_KEYS
_MAPS = given.MAPS | given.FAILING_MAPS
_FILTERS = given.FILTERS | given.FAILING_FILTERS
_FLAT_MAPS = given.FLAT_MAPS | given.FAILING_FLAT_MAPS
_MESSAGES = given.MESSAGES | given.FAILING_MESSAGES | given.BACKWARD_MESSAGES


def _build(description: Description, nodes: list[Any], step: Step, number: int) -> Any:
    node = nodes[step.of]
    match step:
        case Map():
            return node.map(_MAPS[step.fn](step.number))
        case Filter():
            return node.filter(_FILTERS[step.fn](step.number))
        case FlatMap():
            return node.flat_map(_FLAT_MAPS[step.fn](step.number))
        case Async():
            fn = given.awaited(step.fn, step.number, step.waits)
            return node.async_flat_map(fn, id=f"async-{number}", order=step.order, max_in_flight=step.in_flight)
        case Messages():
            return node.map_messages(_MESSAGES[step.fn](step.number))
        case Merge():
            return node.merge(*(nodes[other] for other in step.others))
        case Border():
            kind = given.KEY_TYPES[step.key]
            value = given.Event if step.typed else None
            return node.partition_by(ALL_KEYS[step.fn](step.number), id=f"border-{number}", key_type=kind, value=value)
        case Join():
            joining = (given.JOINS | given.FAILING_JOINS)[step.fn](step.number)
            options: dict[str, Any] = {"id": f"join-{number}", "how": step.how, "retain": step.retain}
            return node.join(nodes[step.other], joining, within=timedelta(milliseconds=step.within), **options)
        case WindowStep():
            return _window(node, step, number, description.key_type(step.of))
        case Split():
            return _split(node, step, number)
        case Process():
            processor = case_processors.PROCESSORS[step.processor](step.number, step.fails)
            made = node.process(processor, id=f"process-{number}")
            if step.aside is not None:
                made.tagged(processor.aside).send_to(step.aside)
            return made
        case _:
            raise TypeError(f"{step!r} is nothing to build")


def _split(node: Any, step: Split, number: int) -> Any:
    first, *others, rest = node.split(*(_FILTERS[fn](step.number) for fn in step.fns))
    rest.send_to(f"rest-{number}")
    for other in others:
        other.send_to(f"second-{number}")
    return first


def _window(node: Any, step: WindowStep, number: int, key: KeyType | None) -> Any:
    assert key is not None, "a window is on a keyed stream"
    aggregate = (given.AGGREGATES | given.FAILING_AGGREGATES)[step.aggregate]()
    panes = node.window(
        _assigner(step),
        aggregate,
        id=f"window-{number}",
        trigger=_trigger(step.trigger),
        late_trigger=_trigger(step.late_trigger),
        lateness=timedelta(milliseconds=step.lateness),
        late_to=step.late_to,
        accumulate=step.accumulate,
    )
    if step.panes is not None:
        (panes.map(given.in_order) if step.aggregate == "collect" else panes).send_to(step.panes)
    if step.crosses:
        panes = panes.partition_by(given.key_of_pane, id=f"panes-{number}", key_type=given.KEY_TYPES[key])
    return panes.map({"event_of": given.event_of, "event_of_good": given.event_of_good}[step.back])


def _assigner(step: WindowStep) -> Any:
    size = timedelta(milliseconds=step.size)
    match step.kind:
        case "tumbling":
            return tumbling(size)
        case "session":
            return session(size)
        case "hopping":
            return hopping(size, every=timedelta(milliseconds=step.every))
        case "unbounded":
            return unbounded()


def _trigger(when: When | None) -> Trigger | None:
    if when is None:
        return None
    parts: list[Trigger] = []
    if when.count is not None:
        parts.append(after_count(when.count))
    if when.first is not None:
        parts.append(after(first=timedelta(milliseconds=when.first)))
    if when.last is not None:
        parts.append(after(last=timedelta(milliseconds=when.last)))
    return repeat(any_of(*parts)) if when.repeats else any_of(*parts)

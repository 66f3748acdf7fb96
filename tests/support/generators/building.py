"""The pipelines that descriptions are built into."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fluvial.dsl import (
    Batch,
    Cache,
    Pipeline,
    Resource,
    Retry,
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
from fluvial.dsl.processor import answers_timers
from generators import case_functions as given
from generators import case_remotes as remote
from generators.case_clients import Client, clients, with_client
from generators.case_events import Event, at, at_if_good
from generators.case_joins import FAILING_JOINS, JOINS
from generators.case_keys import FAILING_KEYS, KEY_TYPES, KEYS, WHOLE, KeyType
from generators.case_processors import PROCESSORS
from generators.case_windows import AGGREGATES, FAILING_AGGREGATES, event_of, event_of_good, in_order, key_of_pane
from generators.described_steps import (
    Async,
    Border,
    Broadcast,
    Deduplicate,
    Filter,
    FlatMap,
    Join,
    Lookup,
    Map,
    Merge,
    Messages,
    Process,
    Put,
    RemoteLookup,
    RemotePut,
    Send,
    Source,
    Split,
    Step,
    When,
    WindowStep,
)
from generators.described_tables import RemoteRows, TablePair, TableSource
from generators.descriptions import Description, inputs_of

_MAPS = given.MAPS | given.FAILING_MAPS
_FILTERS = given.FILTERS | given.FAILING_FILTERS
_FLAT_MAPS = given.FLAT_MAPS | given.FAILING_FLAT_MAPS
_MESSAGES = given.MESSAGES | given.FAILING_MESSAGES | given.BACKWARD_MESSAGES
_KEYS = KEYS["str"] | KEYS["int"] | KEYS["pair"] | FAILING_KEYS
_JOINS = JOINS | FAILING_JOINS
_BACK = {"event_of": event_of, "event_of_good": event_of_good}
_TIMES = {"record": None, "at": at, "at_if_good": at_if_good}
_POLICIES = {"fail": fail, "skip": skip, "dead_letter": dead_letter}


@dataclass
class _Built:
    """What there is of a pipeline so far: its streams by node, and its tables."""

    description: Description
    nodes: list[Any] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    remotes: list[Any] = field(default_factory=list)
    clients: Resource[Client] = field(default_factory=clients)

    def of(self, step: Step) -> Any:
        """The stream that a step reads."""
        return self.nodes[step.of]

    def id(self, word: str) -> str:
        """A name for the node that comes next."""
        return f"{word}-{len(self.nodes)}"


def build(description: Description, idle_after: int | None = None) -> Pipeline:
    """The pipeline of a description, named `case`. Partitions of its sources are idle after so many ms."""
    pipeline = Pipeline("case", on_error=_POLICIES[description.on_error]())
    built = _Built(description)
    patience = None if idle_after is None else timedelta(milliseconds=idle_after)
    built.nodes += [_source(pipeline, source, patience) for source in description.sources]
    for table in description.tables:
        built.tables.append(_table(pipeline, built.tables, table))
    built.remotes += [_remote(pipeline, built, *numbered) for numbered in enumerate(description.remotes)]
    for step in description.steps:
        built.nodes.append(BUILDERS[type(step)](built, step))
    read = {node for step in description.steps for node in inputs_of(step)}
    for number, node in enumerate(built.nodes):
        if number not in read and node is not None:
            node.send_to(f"out-{number}")
    return pipeline


def _source(pipeline: Pipeline, source: Source, idle_after: timedelta | None) -> Any:
    wait = timedelta(milliseconds=source.out_of_order)
    key = None if source.key is None else KEY_TYPES[source.key]
    options: dict[str, Any] = {"timestamp": _TIMES[source.time], "out_of_order": wait, "idle_after": idle_after}
    return pipeline.stream(source.stream, value=Event, key=key, **options)


def _table(pipeline: Pipeline, before: list[Any], table: TableSource | TablePair) -> Any:
    if isinstance(table, TableSource):
        return pipeline.table(table.stream, key=KEY_TYPES[table.key], value=Event)
    fn = JOINS[table.fn](table.number)
    return before[table.left].join(before[table.right], fn, id=f"pair-{len(before)}", how=table.how)


def _remote(pipeline: Pipeline, built: _Built, number: int, rows: RemoteRows) -> Any:
    name = f"in-order-{number}" if rows.in_order else f"remote-{number}"
    read, write = (remote.reading_many, remote.writing_many) if rows.batch else (remote.reading, remote.writing)
    options: dict[str, Any] = {
        "read": read(rows.fn, rows.number, rows.waits),
        "write": write(name, rows.waits) if rows.written else None,
        "max_in_flight": rows.in_flight,
        "retry": Retry(attempts=2, delay=timedelta(0)),
        "cache": Cache(size=2) if rows.cached else None,
        "batch": Batch(size=rows.batch, delay=timedelta(milliseconds=1)) if rows.batch else None,
    }
    if rows.client:
        options |= {call: with_client(options[call]) for call in ("read", "write") if options[call]}
        return pipeline.remote_table(name, resource=built.clients, **options)
    return pipeline.remote_table(name, **options)


def _async(built: _Built, step: Async) -> Any:
    fn: Any = given.awaited(step.fn, step.number, step.waits)
    options: dict[str, Any] = {"id": built.id("async"), "order": step.order, "max_in_flight": step.in_flight}
    if step.batch:
        fn = given.awaited_many(fn)
        options["batch"] = Batch(size=step.batch, delay=timedelta(milliseconds=1))
    if step.client:
        return built.of(step).async_flat_map(with_client(fn), resource=built.clients, **options)
    return built.of(step).async_flat_map(fn, **options)


def _border(built: _Built, step: Border) -> Any:
    value = Event if step.typed else None
    fn = _KEYS[step.fn](step.number)
    return built.of(step).partition_by(fn, id=built.id("border"), key_type=KEY_TYPES[step.key], value=value)


def _join(built: _Built, step: Join) -> Any:
    options: dict[str, Any] = {"id": built.id("join"), "how": step.how, "retain": step.retain}
    if step.how != "inner":
        options["exclusive"] = built.description.exclusive
    fn = _JOINS[step.fn](step.number)
    return built.of(step).join(built.nodes[step.other], fn, within=timedelta(milliseconds=step.within), **options)


def _deduplicate(built: _Built, step: Deduplicate) -> Any:
    by = None if step.by is None else (_KEYS | WHOLE)[step.by](step.number)
    # What may be None tells no type.
    options: dict[str, Any] = {"by": by, "by_type": str if step.by in FAILING_KEYS else None}
    once = built.of(step).deduplicate(timedelta(milliseconds=step.within), id=built.id("once"), **options)
    return once.map_messages(given.bare) if step.bare else once


def _process(built: _Built, step: Process) -> Any:
    processor = PROCESSORS[step.processor](step.number, step.fails)
    exclusive = built.description.exclusive or not answers_timers(processor)
    made = built.of(step).process(processor, id=built.id("process"), exclusive=exclusive)
    if step.aside is not None:
        made.tagged(processor.aside).send_to(step.aside)
    return made


def _split(built: _Built, step: Split) -> Any:
    first, *others, rest = built.of(step).split(*(_FILTERS[fn](step.number) for fn in step.fns))
    rest.send_to(built.id("rest"))
    for other in others:
        other.send_to(built.id("second"))
    return first


def _send(built: _Built, step: Send) -> None:
    node = built.of(step)
    if step.form != "event":
        node = node.map(given.FORMS[step.form](step.number))
    key = None if step.key is None else _KEYS[step.key_fn](step.number)
    value = Event if step.typed and step.form == "event" else None
    node.send_to(step.stream, key=key, value=value)


def _window(built: _Built, step: WindowStep) -> Any:
    key: KeyType | None = built.description.key_type(step.of)
    assert key is not None, "a window is on a keyed stream"
    panes = built.of(step).window(
        _assigner(step),
        (AGGREGATES | FAILING_AGGREGATES)[step.aggregate](),
        id=built.id("window"),
        trigger=_trigger(step.trigger),
        late_trigger=_trigger(step.late_trigger),
        lateness=timedelta(milliseconds=step.lateness),
        late_to=step.late_to,
        accumulate=step.accumulate,
        exclusive=built.description.exclusive,
    )
    if step.panes is not None:
        (panes.map(in_order) if step.aggregate == "collect" else panes).send_to(step.panes)
    if step.crosses:
        panes = panes.partition_by(key_of_pane, id=built.id("panes"), key_type=KEY_TYPES[key])
    return panes.map(_BACK[step.back])


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


BUILDERS: Mapping[type[Step], Callable[[_Built, Any], Any]] = {
    Map: lambda built, step: built.of(step).map(_MAPS[step.fn](step.number)),
    Filter: lambda built, step: built.of(step).filter(_FILTERS[step.fn](step.number)),
    FlatMap: lambda built, step: built.of(step).flat_map(_FLAT_MAPS[step.fn](step.number)),
    Async: _async,
    Messages: lambda built, step: built.of(step).map_messages(_MESSAGES[step.fn](step.number)),
    Merge: lambda built, step: built.of(step).merge(*(built.nodes[other] for other in step.others)),
    Border: _border,
    Broadcast: lambda built, step: built.of(step).broadcast(
        id=built.id("broadcast"), value=Event if step.typed else None
    ),
    Join: _join,
    Lookup: lambda built, step: built.of(step).join(
        built.tables[step.table], _JOINS[step.fn](step.number), id=built.id("lookup"), how=step.how
    ),
    RemoteLookup: lambda built, step: built.of(step).join(
        built.remotes[step.remote], _JOINS[step.fn](step.number), id=built.id("read"), how=step.how
    ),
    WindowStep: _window,
    Split: _split,
    Process: _process,
    Deduplicate: _deduplicate,
    Send: _send,
    Put: lambda built, step: built.of(step).send_to(built.tables[step.table]),
    RemotePut: lambda built, step: built.of(step).send_to(built.remotes[step.remote]),
}
"""How each kind of step is built; ends give None."""


def pipeline_of(stream: Any) -> Pipeline:
    """The pipeline of a stream."""
    pipeline = Pipeline("p")
    pipeline._graph = stream._graph
    return pipeline

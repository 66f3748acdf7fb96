"""The options of operators as text, by name, for each kind: plans and drawings show them below the label."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from ..dsl import operators as ops
from ..dsl.keyed_state import ListState, MapState, State
from ..dsl.labels import function_name
from ..dsl.processor import clock_of, states_of, tags_of
from ..dsl.remote_table import RemoteTable
from ..dsl.serde import Serde, type_name
from ..dsl.triggers import Trigger
from ..dsl.windows import Assigner, Hopping, Session, Tumbling, Unbounded


def duration(ms: int) -> str:
    """A duration as people write it: `30 min`, `1.5 s`."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size and ms % (size // 10 or 1) == 0:
            return f"{ms / size:.12g} {unit}"
    return f"{ms} ms" if ms < 60_000 else str(timedelta(milliseconds=ms))


def assigner_text(assigner: Assigner) -> str:
    """An assigner with its span: `session 30 min`."""
    texts: Mapping[type, Callable[[Any], str]] = {
        Tumbling: lambda it: f"tumbling {duration(it.size)}",
        Hopping: lambda it: f"hopping {duration(it.size)}, every {duration(it.every)}",
        Session: lambda it: f"session {duration(it.gap)}",
        Unbounded: lambda _: "unbounded",
    }
    return texts[type(assigner)](assigner)


def trigger_text(trigger: Trigger) -> str:
    """A trigger in words: `each time after 100 messages or 10 s`."""
    ways = {
        "{} message(s)": trigger.count,
        "{} from the first": None if trigger.first is None else duration(trigger.first),
        "{} from the last": None if trigger.last is None else duration(trigger.last),
    }
    conditions = " or ".join(way.format(limit) for way, limit in ways.items() if limit is not None)
    return f"{'each time' if trigger.repeats else 'once'} after {conditions}"


def state_text(state: State) -> str:
    """The type of a state as people write it: `map[str, int]`."""
    kind = _named(state.kind)
    if isinstance(state, MapState):
        return f"map[{_named(state.key)}, {kind}]"
    return f"list[{kind}]" if isinstance(state, ListState) else kind


def _named(kind: Any) -> str:
    return kind.name if isinstance(kind, Serde) else type_name(kind)


def no_options(_: Any) -> dict[str, str]:
    """Of an operator that has none."""
    return {}


def function_options(op: Any) -> dict[str, str]:
    """Of an operator that has a function alone."""
    return {"function": function_name(op.fn)}


def source_options(op: ops.Source) -> dict[str, str]:
    """How it tells time, and what comes first."""
    options = {"timestamp": function_name(op.timestamp) if op.timestamp else "of the record"}
    if op.out_of_order:
        options["out_of_order"] = duration(op.out_of_order)
    if op.idle_after is not None:
        options["idle_after"] = duration(op.idle_after)
    if op.bootstrap:
        options["bootstrap"] = "first"
    return options


def async_options(op: ops.AsyncFlatMap) -> dict[str, str]:
    """Its function, and the limits of its calls."""
    options = {"function": function_name(op.fn), "order": op.order, "max_in_flight": str(op.max_in_flight)}
    options["timeout"] = duration(op.timeout)
    if op.retry is not None:
        options["attempts"] = str(op.retry.attempts)
    return options


def partition_by_options(op: ops.PartitionBy) -> dict[str, str]:
    """The function of the key."""
    return {"key": function_name(op.fn)}


def table_join_options(op: ops.JoinTable | ops.JoinTables) -> dict[str, str]:
    """Its function, and which rows it needs."""
    return {"function": function_name(op.fn), "how": op.how}


def split_options(op: ops.Split) -> dict[str, str]:
    """Its predicates, in order."""
    return {"predicates": ", ".join(map(function_name, op.predicates))}


def branch_options(op: ops.Branch) -> dict[str, str]:
    """Its place among the branches, from 1."""
    return {"place": str(op.place + 1)}


def side_options(op: ops.Side) -> dict[str, str]:
    """The name of its tag."""
    return {"tag": op.tag.name}


def send_to_options(op: ops.SendTo) -> dict[str, str]:
    """The function of the key, if it has one."""
    return {"key": function_name(op.key)} if op.key else {}


def sink_options(op: ops.SinkTo) -> dict[str, str]:
    """The class of the sink."""
    return {"sink": type(op.sink).__name__}


def remote_join_options(op: ops.JoinRemote) -> dict[str, str]:
    """Its function, which rows it needs, and the limits of the table."""
    return {"function": function_name(op.joined), "how": op.how} | _remote(op.table)


def remote_put_options(op: ops.PutRemote) -> dict[str, str]:
    """The limits of the table."""
    return _remote(op.table)


def _remote(table: RemoteTable[Any, Any]) -> dict[str, str]:
    options = {"table": table.name, "max_in_flight": str(table.max_in_flight), "timeout": duration(table.timeout_ms)}
    options["attempts"] = str(table.retry.attempts)
    if table.batch is not None:
        options["batch"] = f"{table.batch.size} keys, {duration(table.batch.delay_ms)}"
    if table.cache is not None:
        options["cache"] = f"{table.cache.size} rows"
    return options


def window_options(op: ops.WindowBy) -> dict[str, str]:
    """Its windows, what it makes of them, and when it emits."""
    options = {"windows": assigner_text(op.assigner), "aggregate": op.aggregate.name}
    for name, trigger in (("early", op.trigger), ("late", op.late_trigger)):
        if trigger is not None:
            options[name] = trigger_text(trigger)
    if op.lateness:
        options["lateness"] = duration(op.lateness)
    if op.late_to is not None:
        options["late_to"] = op.late_to
    if not op.accumulate:
        options["panes"] = "discarding"
    return options | _time(op)


def join_options(op: ops.JoinStreams) -> dict[str, str]:
    """Its function, and which rows meet."""
    return {
        "function": function_name(op.fn),
        "how": op.how,
        "within": duration(op.within),
        "retain": op.retain,
    } | _time(op)


def _time(op: ops.WindowBy | ops.JoinStreams) -> dict[str, str]:
    return {} if op.time == "event" else {"time": op.time}


def deduplicate_options(op: ops.Deduplicate) -> dict[str, str]:
    """Within which time messages are duplicates, and by what besides their key."""
    return {"within": duration(op.within)} | ({} if op.by is None else {"by": function_name(op.by)})


def process_options(op: ops.Process) -> dict[str, str]:
    """Its processor, what that keeps, and its other outputs."""
    options = {"processor": type(op.processor).__name__}
    for name, state in states_of(op.processor).items():
        options[name] = state_text(state) + (f" for {duration(state.ttl)}" if state.ttl else "")
    if clock_of(op.processor) is not None:
        options["time"] = "event and processing"
    if tags := tags_of(op.processor):
        options["side outputs"] = ", ".join(tags)
    return options

"""Options of operators as text, for plans and drawings."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from ..dsl.keyed_state import ListState, MapState, State
from ..dsl.operators import Operator
from ..dsl.operators.labels import function_name
from ..dsl.remote_table import RemoteTable
from ..dsl.serde import Serde, type_name
from ..dsl.windows.assigners import Assigner, Hopping, Session, Tumbling, Unbounded
from ..dsl.windows.triggers import Trigger


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
    value = _named(state.type)
    if isinstance(state, MapState):
        return f"map[{_named(state.key)}, {value}]"
    return f"list[{value}]" if isinstance(state, ListState) else value


def _named(type_: Any) -> str:
    return type_.name if isinstance(type_, Serde) else type_name(type_)


def no_options(_: Any) -> dict[str, str]:
    """The options of an operator that has none to show."""
    return {}


def function_options(op: Any) -> dict[str, str]:
    """The options of an operator that has a function alone: its name."""
    return {"function": function_name(op.fn)}


def remote_options(table: RemoteTable[Any, Any]) -> dict[str, str]:
    """The options of an operator that calls a remote table: its name, the limits of calls, its cache and batches."""
    options = {"table": table.name, "max_in_flight": str(table.max_in_flight), "timeout": duration(table.timeout_ms)}
    options["attempts"] = str(table.retry.attempts)
    if table.batch is not None:
        options["batch"] = f"{table.batch.size} keys, {duration(table.batch.delay_ms)}"
    if table.cache is not None:
        options["cache"] = f"{table.cache.size} rows"
    rates = {"reads_per_second": table.reads_per_second, "writes_per_second": table.writes_per_second}
    options |= {name: f"{rate:g}" for name, rate in rates.items() if rate is not None}
    if table.resource is not None:
        options["resource"] = table.resource.name
    if table.limit is not None:
        options["limit"] = table.limit.name
    if table.breaker is not None:
        options["breaker"] = table.breaker.name
    if table.concurrency is not None:
        calls = f"{table.concurrency.least} to {table.most_calls}"
        options["concurrency"] = f"{calls} in each process, as the service takes"
    return options


def time_options(op: Operator) -> dict[str, str]:
    """The option that tells processing time; none where an operator goes by event time, as most do."""
    return {} if op.time_domain == "event" else {"time": op.time_domain}


def exclusive_options(op: Operator) -> dict[str, str]:
    """The option that messages do not wait for what time makes an operator emit; none where they do."""
    return {} if op.is_exclusive else {"exclusive": "no"}

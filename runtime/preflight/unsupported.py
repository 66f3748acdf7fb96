"""What an engine cannot run (limitations), and what it does not promise (caveats): a row for each, with the reason that
users read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import networkx as nx

from ...dsl.async_stream_task import AsyncStreamTask
from ...dsl.operators.calls import limits_of
from ...dsl.pooled_function import PooledFunction
from ...dsl.stream_task import StreamTask, hooks_of
from ...planner.grouping import BY_STREAM_PARTITION
from ...planner.journals import journals_of
from ...planner.kinds import PLANNER_KINDS
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..systems.provisioning import bootstrap_streams, input_priorities


@dataclass(frozen=True, slots=True)
class Limitation:
    """An operator or a system that an engine cannot run, and why."""

    engine: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Caveat:
    """A promise that an engine does not keep for a plan that it runs: what it concerns, and why."""

    engine: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Row:
    """`subjects` finds what a limitation or a caveat concerns, given a plan and the URL of its system."""

    engine: str
    subjects: Callable[[Plan, str], Iterable[str]]
    reason: str


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting that an engine does not have, where it is another than the default, and why."""

    engine: str
    name: str
    reason: str


def _memory(_: Plan, system: str) -> Iterable[str]:
    return [f"the system {system}"] if system.startswith("memory:") else []


def _written_on_kafka(plan: Plan, system: str) -> Iterable[str]:
    return (
        [stream.name for stream in plan.streams if stream.kind in _OUTPUT_KINDS] if system.startswith("kafka:") else []
    )


def _read_from_kafka(plan: Plan, system: str) -> Iterable[str]:
    return [stream.name for stream in plan.streams if stream.kind == "source"] if system.startswith("kafka:") else []


def _first_on_kafka(plan: Plan, system: str) -> Iterable[str]:
    """Bootstrap streams of stages that have other inputs and keep no state."""
    if not system.startswith("kafka:"):
        return []
    first = bootstrap_streams(plan)
    ordered = {store.stage for store in plan.stores}
    return [
        name
        for stage in plan.stages
        for name in stage.inputs
        if name in first and len(stage.inputs) > 1 and stage.id not in ordered
    ]


def _budgets(plan: Plan, _: str) -> Iterable[str]:
    return [
        f"the budget of limit {limit.name!r}" for limit in limits_of(plan.pipeline.calls) if limit.budget is not None
    ]


def _by_clock(plan: Plan, _: str) -> Iterable[str]:
    waiting = [source.label for source in plan.pipeline.sources if source.idle_after is not None]
    return [*(operator.label for operator in plan.pipeline.operators if operator.follows_clock), *waiting]


def _by_task(plan: Plan, _: str) -> Iterable[str]:
    return [operator.label for operator in plan.pipeline.operators if not operator.is_elastic]


def _asynchronous_tasks(plan: Plan, _: str) -> Iterable[str]:
    return [operator.label for operator in plan.pipeline.operators if operator.kind == "task_call"]


def _with_methods(plan: Plan, _: str) -> Iterable[str]:
    """The methods of stream tasks with state by key that are called beside `process`."""
    handlers = [(one, one.handler) for one in plan.pipeline.operators if one.is_elastic]
    return [
        f"{name} of {operator.label}"
        for operator, handler in handlers
        if isinstance(handler, StreamTask | AsyncStreamTask)
        for name in hooks_of(handler)
    ]


def _split(plan: Plan, _: str) -> Iterable[str]:
    return [f"elasticity of stage {stage.name!r}" for stage in plan.stages if stage.elasticity > 1]


def _grouped_by_stream(plan: Plan, _: str) -> Iterable[str]:
    return [f"group_by of stage {one.name!r}" for one in plan.stages if one.group_by == BY_STREAM_PARTITION]


def _with_priority(plan: Plan, _: str) -> Iterable[str]:
    return [f"priority of stream {stream}" for stream in input_priorities(plan)]


def _split_by_time(plan: Plan, _: str) -> Iterable[str]:
    """Sources whose messages every task decodes, since a function tells their times."""
    split = {name for stage in plan.stages if stage.elasticity > 1 for name in stage.inputs}
    return [one.label for one in plan.pipeline.sources if one.stream in split and one.timestamp is not None]


def _between_calls(plan: Plan, system: str) -> Iterable[str]:
    """What fires, with calls before and behind it in its stage."""
    if not system.startswith("kafka:"):
        return []
    pipeline, labels = plan.pipeline, list[str]()
    for stage in plan.stages:
        graph = pipeline.graph.subgraph(stage.operators)
        calls = {id for id in stage.operators if pipeline.operator(id).async_call is not None}
        ancestors = {id: nx.ancestors(graph, id) for id in stage.operators}
        before_calls = {id for call in calls for id in ancestors[call]}
        between = [pipeline.operator(id) for id in stage.operators if id in before_calls and calls & ancestors[id]]
        labels += [operator.label for operator in between if PLANNER_KINDS[operator].fires_at_end(operator)]
    return labels


def _not_exclusive(plan: Plan, _: str) -> Iterable[str]:
    return [f"exclusive=False of {one.label}" for one in plan.pipeline.operators if not one.is_exclusive]


def _without_calls(plan: Plan, _: str) -> Iterable[str]:
    """What fires without excluding messages, and has no calls behind it in its stage."""
    before_calls = _before_calls(plan)
    others = [one for one in plan.pipeline.operators if one.id not in before_calls]
    return [f"exclusive=False of {one.label}" for one in others if not one.is_exclusive]


def _excluding_often(plan: Plan, _: str) -> Iterable[str]:
    """What fires for one key at a time, and makes messages wait for the calls behind it."""
    before_calls = _before_calls(plan)
    firing = [one for one in plan.pipeline.operators if one.id in before_calls and one.fires_by_key]
    return [one.label for one in firing if one.is_exclusive]


def _before_calls(plan: Plan) -> set[str]:
    """The operators with asynchronous calls behind them in their stage."""
    pipeline, ids = plan.pipeline, set[str]()
    for stage in plan.stages:
        graph = pipeline.graph.subgraph(stage.operators)
        calls = [id for id in stage.operators if pipeline.operator(id).async_call is not None]
        ids.update(id for call in calls for id in nx.ancestors(graph, call))
    return ids


def _journals(plan: Plan, _: str) -> Iterable[str]:
    return [f"journal=True of {plan.pipeline.operator(one.operator).label}" for one in journals_of(plan)]


def _in_processes(plan: Plan, _: str) -> Iterable[str]:
    calls = [(one.label, one.async_call.fn) for one in plan.pipeline.operators if one.async_call is not None]
    return [
        f"in_processes of {label}" for label, fn in calls if isinstance(fn, PooledFunction) and fn.kind == "processes"
    ]


_OUTPUT_KINDS = ("output", "late", "dead-letters")
_LIMITATIONS = (
    _Row(
        "spark",
        _journals,
        "Spark runs a task again without what the attempt before has kept: calls would be made, and paid, again",
    ),
    _Row("spark", _memory, "Spark's workers are other processes and cannot see it"),
    _Row(
        "spark",
        _first_on_kafka,
        "Spark reads topics side by side, and only a stage with state processes a bootstrap stream first",
    ),
    _Row("spark", _by_task, 'its state is by task, and on Spark no task stays: write state="key"'),
    _Row("spark", _asynchronous_tasks, "stream tasks are synchronous there: use async_flat_map, and one behind it"),
    _Row("spark", _with_methods, "Spark makes stream tasks anew for each batch, and calls process alone"),
    _Row(
        "spark",
        _in_processes,
        "each task of Spark's is a process already, which Spark ends without notice: write in_threads there, or a "
        "flat_map, whose function runs in as many processes as Spark has tasks",
    ),
    _Row("spark", _budgets, "no task of Spark's knows what others have spent: leave out budget=, and limit calls"),
)
_CAVEATS = (
    _Row(
        "local",
        _between_calls,
        "under exactly_once all that it fires is one transaction while calls before it are in flight: if the calls "
        "behind it may together take longer than transaction.timeout.ms, write partition_by between, or raise it",
    ),
    _Row(
        "local",
        _split_by_time,
        "with elasticity each task decodes the messages of other key buckets too, since timestamp= tells their times",
    ),
    _Row(
        "local",
        _excluding_often,
        "fires with nearly each message, which others wait for until its calls have ended: write exclusive=False if "
        "their order does not matter, or partition_by between",
    ),
    _Row("local", _without_calls, "of no effect: no asynchronous calls are behind it in its stage"),
    _Row(
        "spark", _not_exclusive, "of no effect: a batch is read before it fires, and ends once all of that has landed"
    ),
    _Row("spark", _split, "of no effect: Spark has key buckets of its own, see spark_buckets"),
    _Row("spark", _grouped_by_stream, "of no effect: Spark reads each partition of each stream in a task of its own"),
    _Row("spark", _with_priority, "of no effect: a batch has messages of all inputs"),
    _Row(
        "spark",
        _written_on_kafka,
        "written at least once unless the guarantee is exactly_once: a batch that a crash interrupts is written again, "
        "with the same contents",
    ),
    _Row(
        "spark",
        _by_clock,
        "processing time advances once a batch, at most once a second: all messages of a batch have the same one",
    ),
    _Row(
        "spark",
        _read_from_kafka,
        "read in the partitions that it begins with: Spark's checkpoint goes on with no other number of them, so that "
        "more are warned of, and refused by the next run",
    ),
)
_SETTINGS_WITHOUT_EFFECT = (
    _Setting("spark", "stop_timeout", "of no effect: a run leaves its batch, which the next one repeats"),
    _Setting("spark", "turn_messages", "of no effect: a batch has messages of all inputs, in no order among them"),
)
_SETTINGS_LACKED = (_Setting("spark", "async_commit", "a batch commits once all its calls have ended: leave it out"),)


def limitations(plan: Plan, engine: str, system: str = "", settings: Settings | None = None) -> list[Limitation]:
    """What an engine cannot run of a plan with these settings; empty if it can run all. `system` is a URL, empty where
    none is chosen.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).send_to("out")
    >>> limitations(plan(words), "spark", "memory:")[0].subject
    'the system memory:'
    """
    subjects = [*_subjects(_LIMITATIONS, plan, engine, system), *_set(_SETTINGS_LACKED, engine, settings)]
    return [Limitation(engine, subject, reason) for subject, reason in subjects]


def caveats(plan: Plan, engine: str, system: str = "", settings: Settings | None = None) -> list[Caveat]:
    """What an engine does not promise of a plan that it runs with these settings. `system` is a URL, empty where none
    is chosen.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).send_to("out")
    >>> [caveat.subject for caveat in caveats(plan(words), "spark", "kafka://localhost:9092")]
    ['out', 'lines']
    """
    subjects = [*_subjects(_CAVEATS, plan, engine, system), *_set(_SETTINGS_WITHOUT_EFFECT, engine, settings)]
    return [Caveat(engine, subject, reason) for subject, reason in subjects]


def _subjects(rows: Iterable[_Row], plan: Plan, engine: str, system: str) -> Iterable[tuple[str, str]]:
    return [(subject, row.reason) for row in rows if row.engine == engine for subject in row.subjects(plan, system)]


def _set(rows: Iterable[_Setting], engine: str, settings: Settings | None) -> Iterable[tuple[str, str]]:
    """Those of the settings that are not as by default, with the reasons of their rows."""
    given, default = settings or Settings(), Settings()
    mine = [row for row in rows if row.engine == engine]
    values = [(row, getattr(given, row.name)) for row in mine]
    return [(f"{row.name}={value}", row.reason) for row, value in values if value != getattr(default, row.name)]

"""What an engine cannot run, and what it does not promise, as data: one row for each, with the reason users read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...planner.plan import Plan
from ..systems.provisioning import bootstrap_streams


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that an engine cannot run: an operator, or the system; and why."""

    engine: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that users may expect of an engine in vain, though it runs the plan: what it concerns, and why."""

    engine: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Row:
    """`subjects` finds what a gap or a note concerns, in a plan and the URL of the system that it is to run on."""

    engine: str
    subjects: Callable[[Plan, str], Iterable[str]]
    reason: str


def _memory(_: Plan, system: str) -> Iterable[str]:
    return [f"the system {system}"] if system.startswith("memory:") else []


def _written_on_kafka(plan: Plan, system: str) -> Iterable[str]:
    return [stream.name for stream in plan.streams if stream.kind in _LEAVING] if system.startswith("kafka:") else []


def _first_on_kafka(plan: Plan, system: str) -> Iterable[str]:
    """Bootstrap streams beside others in a stage that takes messages in as they are read."""
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


def _by_clock(plan: Plan, _: str) -> Iterable[str]:
    waiting = [source.label for source in plan.pipeline.sources if source.idle_after is not None]
    return [*(operator.label for operator in plan.pipeline.operators if operator.follows_clock), *waiting]


_LEAVING = ("output", "late", "dead-letters")
_GAPS = (
    _Row("spark", _memory, "Spark's workers are other processes and cannot see it"),
    _Row(
        "spark",
        _first_on_kafka,
        "Spark reads topics side by side, and only a stage with state takes a bootstrap stream in first",
    ),
)
_NOTES = (
    _Row(
        "spark",
        _written_on_kafka,
        "written at least once, also under exactly_once: state is kept exactly once, but a batch that a crash cuts off "
        "is written again, in the same words",
    ),
    _Row(
        "spark",
        _by_clock,
        "the clock is looked at once a batch, at most each second: what comes in one batch comes at one time",
    ),
)


def gaps(plan: Plan, engine: str, system: str = "") -> list[Gap]:
    """What keeps an engine from running a plan; empty if nothing does. `system` is a URL, empty where none is chosen.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).send_to("out")
    >>> gaps(plan(words), "spark", "memory:")[0].subject
    'the system memory:'
    """
    return [Gap(engine, subject, reason) for subject, reason in _found(_GAPS, plan, engine, system)]


def notes(plan: Plan, engine: str, system: str = "") -> list[Note]:
    """What an engine does not promise of a plan that it runs. `system` is a URL, empty where none is chosen.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).send_to("out")
    >>> notes(plan(words), "spark", "kafka://localhost:9092")[0].subject
    'out'
    """
    return [Note(engine, subject, reason) for subject, reason in _found(_NOTES, plan, engine, system)]


def _found(rows: Iterable[_Row], plan: Plan, engine: str, system: str) -> Iterable[tuple[str, str]]:
    return [(subject, row.reason) for row in rows if row.engine == engine for subject in row.subjects(plan, system)]

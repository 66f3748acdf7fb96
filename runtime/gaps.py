"""What an engine cannot run, as data: one row for each gap, with the reason users read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that an engine cannot run: an operator's id, or the system; and why."""

    engine: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Row:
    """`subjects` finds what the gap concerns, in a plan and the URL of the system that it is to run on."""

    engine: str
    subjects: Callable[[Plan, str], Iterable[str]]
    reason: str


def _memory(_: Plan, system: str) -> Iterable[str]:
    return [f"the system {system}"] if system.startswith("memory:") else []


_ROWS = (_Row("spark", _memory, "Spark's workers are other processes and cannot see it"),)


def gaps(plan: Plan, engine: str, system: str = "") -> list[Gap]:
    """What keeps an engine from running a plan; empty if nothing does. `system` is a URL, empty where none is chosen.

    >>> from fluvial.dsl import Pipeline
    >>> from fluvial.planner import plan
    >>> words = Pipeline("words")
    >>> words.stream("lines", value=str).send_to("out")
    >>> gaps(plan(words), "spark", "memory:")[0].subject
    'the system memory:'
    """
    rows = [row for row in _ROWS if row.engine == engine]
    return [Gap(engine, subject, row.reason) for row in rows for subject in row.subjects(plan, system)]

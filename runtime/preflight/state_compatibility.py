"""Checks that a plan can continue with the stored state of its pipeline, before a run starts anything."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...dsl.errors import PlanError
from ...dsl.origin import Origin
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.state_schema import StateSchema, differences, undeclared
from ..systems import DEFAULT_SYSTEM, System


@dataclass(frozen=True, slots=True)
class ChangedState:
    """An operator whose stored state has another meaning than in the plan, and the `differences`, a line each.

    `remedy` says what the user can do."""

    label: str
    origin: Origin
    differences: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        return f"the stored state of {self.label} has another meaning: {'; '.join(self.differences)}"


def changed_states(plan: Plan, stored: Iterable[tuple[str, StateSchema]], reset: str) -> Iterator[ChangedState]:
    """The operators with whose stored state a run cannot continue. `stored` are the records of state as (operator,
    record), one for each task. `reset` is the command that would remove the state.

    An operator without a record has stored no state, or stored it before there were records.
    """
    records = list(stored)
    for store in plan.stores:
        differing = (differences(record, store.schema) for operator, record in records if operator == store.operator)
        changed = next(filter(None, differing), None)
        if changed:
            operator = plan.operator(store.operator)
            origin = Origin(operator.file, operator.line)
            remedy = f"give it another id to start over without it, or remove its state: {reset} --state {operator.id}"
            remedy += "".join(f"; {note}" for note in emptied(plan.pipeline, [operator.id]))
            yield ChangedState(operator.label, origin, tuple(changed), remedy)


def undeclared_states(plan: Plan, stored: Iterable[tuple[str, StateSchema]]) -> dict[str, list[str]]:
    """What processors have stored and do not declare any more, by the label of the processor."""
    names: dict[str, list[str]] = {}
    schemas = {store.operator: store.schema for store in plan.stores}
    for operator, record in stored:
        if operator in schemas and (gone := undeclared(record, schemas[operator])):
            names[plan.operator(operator).label] = gone
    return names


def emptied(pipeline: Pipeline, operators: Iterable[str]) -> list[str]:
    """A warning for each table among `operators` that the pipeline fills: its rows do not come back by themselves once
    its state is removed."""
    filled = {operator.fills for operator in pipeline.operators}
    wanted = (operator for operator in operators if operator in filled)
    return [f"table {table!r} starts empty: only new messages add rows to it" for table in wanted]


def reset_command(plan: Plan, system: System, settings: Settings, engine: str = "local") -> str:
    """The command that resets a pipeline where a run stores its state, without the option that says what to remove.

    It has no settings of a client, among which there may be secrets.

    >>> pipeline = Pipeline("busy")
    >>> pipeline.stream("events", value=str).send_to("copies")
    >>> command = reset_command(plan(pipeline), open_system("log:elsewhere"), Settings(state_dir="kept"))
    >>> command.partition(" --")[2]
    'system log:elsewhere --state-dir kept'
    """
    options = {
        "--engine": engine if engine != "local" else None,
        "--system": system.url if system.url != DEFAULT_SYSTEM else None,
        "--state-dir": settings.state_dir,
    }
    given = [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["fluvial", "reset", plan.pipeline.origin.path, *given])


def refuse_changed(plan: Plan, stored: Iterable[tuple[str, StateSchema]], reset: str) -> None:
    """Raise PlanError if stored state would be read with another meaning; `reset` is the command that removes it."""
    changed = list(changed_states(plan, stored, reset))
    if changed:
        first, *others = changed
        wrong = "\n".join([str(first), *(f"{other}, at {other.origin}" for other in others)])
        expected = "the meaning with which it was stored; see the guide on upgrades for what may change"
        raise PlanError(explain(wrong, expected, first.remedy, first.origin))

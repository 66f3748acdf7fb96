"""Whether a plan can go on with the state that is kept of its pipeline: checked before a run starts anything."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...dsl.errors import PlanError
from ...dsl.origin import Origin
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.state_schema import StateSchema, differences
from ..systems import DEFAULT_SYSTEM, System


@dataclass(frozen=True, slots=True)
class ChangedState:
    """An operator whose kept state has another meaning than the plan gives it, and the `differences`, a line each.

    `remedy` says what the user can do."""

    label: str
    origin: Origin
    differences: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        return f"the kept state of {self.label} has another meaning: {'; '.join(self.differences)}"


def changed_states(plan: Plan, stored: Iterable[tuple[str, StateSchema]], reset: str) -> Iterator[ChangedState]:
    """The operators whose state a run cannot go on with. `kept` are the records of their state as (operator, record);
    tasks have a record each. `reset` is the command that would remove it.

    An operator without a record has kept nothing, or has kept it before there were records.
    """
    records = list(stored)
    for store in plan.stores:
        differing = (differences(record, store.schema) for operator, record in records if operator == store.operator)
        changed = next(filter(None, differing), None)
        if changed:
            operator = plan.operator(store.operator)
            origin = Origin(operator.file, operator.line)
            remedy = f"give it another id to begin anew, or remove what is kept of it: {reset} --state {operator.id}"
            remedy += "".join(f"; {note}" for note in emptied(plan.pipeline, [operator.id]))
            yield ChangedState(operator.label, origin, tuple(changed), remedy)


def emptied(pipeline: Pipeline, operators: Iterable[str]) -> list[str]:
    """What is to be said of operators whose state is removed and does not come back by itself: of tables that the
    pipeline fills."""
    filled = {operator.fills for operator in pipeline.operators}
    wanted = (operator for operator in operators if operator in filled)
    return [f"table {table!r} begins empty: its rows come only with new messages" for table in wanted]


def reset_command(plan: Plan, system: System, settings: Settings, engine: str = "local") -> str:
    """The command that resets a pipeline where a run keeps its state, without what it is to remove.

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
    """Raise PlanError where state that is kept would be read with another meaning; `reset` would remove it."""
    changed = list(changed_states(plan, stored, reset))
    if changed:
        first, *others = changed
        wrong = "\n".join([str(first), *(f"{other}, at {other.origin}" for other in others)])
        expected = "the meaning that it was kept with; the guide on upgrades lists what may change"
        raise PlanError(explain(wrong, expected, first.remedy, first.origin))

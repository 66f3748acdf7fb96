"""Whether a plan can go on with the state that is kept of its pipeline: checked before a run starts anything."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..dsl.checks import explain
from ..dsl.errors import PlanError
from ..dsl.origin import Origin
from ..planner.plan import Plan
from ..planner.state_schema import StateSchema, differences


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


def changed_states(
    plan: Plan, kept: Iterable[tuple[str, StateSchema]], engine: str = "local"
) -> Iterator[ChangedState]:
    """The operators whose state an engine cannot go on with. `kept` are the records of their state as (operator,
    record); tasks have a record each.

    An operator without a record has kept nothing, or has kept it before there were records.
    """
    records = list(kept)
    for store in plan.stores:
        found = (differences(record, store.schema) for operator, record in records if operator == store.operator)
        changed = next(filter(None, found), None)
        if changed:
            operator = plan.operator(store.operator)
            origin = Origin(operator.file, operator.line)
            remedy = (
                "give it another id to begin anew, or remove what is kept of it: "
                f"{reset_command(plan, engine)} --state {operator.id}"
            )
            yield ChangedState(operator.label, origin, tuple(changed), remedy)


def reset_command(plan: Plan, engine: str) -> str:
    """The command that resets a pipeline, without what it is to remove; `--system` is for the user to add."""
    return f"fluvial reset {plan.pipeline.origin.path}" + (f" --engine {engine}" if engine != "local" else "")


def refuse_changed(plan: Plan, kept: Iterable[tuple[str, StateSchema]], engine: str = "local") -> None:
    """Raise PlanError where state that is kept would be read with another meaning."""
    changed = list(changed_states(plan, kept, engine))
    if changed:
        first, *others = changed
        wrong = "\n".join([str(first), *(f"{other}, at {other.origin}" for other in others)])
        expected = "the meaning that it was kept with; the guide on upgrades lists what may change"
        raise PlanError(explain(wrong, expected, first.remedy, first.origin))

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
    """An operator whose kept state has another meaning than the plan gives it, and the `differences`, a line each."""

    operator: str
    label: str
    origin: Origin
    differences: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """What the user can do."""
        return (
            f"give it another id to begin anew, or remove what is kept of it: fluvial reset TARGET "
            f"--state {self.operator}"
        )

    def __str__(self) -> str:
        return f"the kept state of {self.label} has another meaning: {'; '.join(self.differences)}"


def changed_states(plan: Plan, kept: Iterable[tuple[str, StateSchema]]) -> Iterator[ChangedState]:
    """The operators whose state cannot be gone on with. `kept` are the records of their state as (operator, record);
    tasks have a record each.

    An operator without a record has kept nothing, or has kept it before there were records.
    """
    records = list(kept)
    for store in plan.stores:
        found = (differences(record, store.schema) for operator, record in records if operator == store.operator)
        changed = next(filter(None, found), None)
        if changed:
            operator = plan.operator(store.operator)
            yield ChangedState(operator.id, operator.label, Origin(operator.file, operator.line), tuple(changed))


def refuse_changed(plan: Plan, kept: Iterable[tuple[str, StateSchema]]) -> None:
    """Raise PlanError where state that is kept would be read with another meaning."""
    changed = list(changed_states(plan, kept))
    if changed:
        first, *others = changed
        wrong = "\n".join([str(first), *(f"{other}, at {other.origin}" for other in others)])
        expected = "the meaning that it was kept with; the guide on upgrades lists what may change"
        raise PlanError(explain(wrong, expected, first.remedy, first.origin))

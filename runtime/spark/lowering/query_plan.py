"""A connected part of a plan on its way to a query."""

from dataclasses import dataclass
from pathlib import Path

from ....planner.plan import Plan
from .levels import Levels
from .packaging import ShippedPlan


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What becomes one query. `folder` holds Spark's checkpoint and what lies beside it; `group` names this very
    checkpoint and no other, also of the same folder. `starts` is where its sources are begun at."""

    plan: Plan
    levels: Levels
    shipped: ShippedPlan
    folder: Path
    group: str
    sources: tuple[str, ...]
    starts: dict[str, list[int]]

    @property
    def keeps_state(self) -> bool:
        return self.levels.count > 1

    @property
    def checkpoint(self) -> Path:
        """Spark's own folder."""
        return self.folder / "spark"

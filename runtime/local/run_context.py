"""What the tasks of a run on the local engine share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...planner.border_schema import BorderSchema
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..kernel.calls.async_calls import Gate, Sleep
from .commit.contract import Commits


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the tasks of a run share: who they are to others, and how they commit. Where `ends_by_drain` the inputs of
    the run end only where it was told to drain, which a container may hear of later than of an end of another one."""

    id: str
    plan: Plan
    settings: Settings
    commits: Commits
    sleep: Sleep
    gate: Gate | None = None
    container: int = 0
    generation: int = 0
    identities: Mapping[str, str] = field(default_factory=dict)
    border_schemas: Mapping[str, BorderSchema] = field(default_factory=dict)
    catches_up: bool = False
    ends_by_drain: bool = False

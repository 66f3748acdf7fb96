"""What the tasks of a run on the local engine share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ...planner.border_schema import BorderSchema
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.task_assignment import StageTasks, stages_of
from ..kernel.calls.async_calls import Gate, Sleep
from ..kernel.calls.pools import pool_of
from ..kernel.task_options import TaskOptions
from .commit.contract import Commits
from .task_setup import TaskSetup


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

    def options_of(self, setup: TaskSetup) -> TaskOptions:
        """What the run says about one of its tasks."""
        return TaskOptions(
            producer=setup.producer,
            bucket=setup.bucket,
            producers=_writers_of(self.plan, setup.stage),
            run=self.id,
            accepts=lambda control: control.run == self.id,
            catches_up=self.catches_up,
            keeps_at_end=not self.settings.forget_at_end,
            make_pool=partial(pool_of, sleep=self.sleep, gate=self.gate),
            takes_requests=True,
        )


def _writers_of(plan: Plan, stage: str) -> dict[str, StageTasks]:
    """The tasks that write each intermediate stream that a stage reads."""
    stages = stages_of(plan)
    between = (plan.stream(name) for name in plan.stage(stage).inputs if plan.stream(name).kind == "intermediate")
    return {stream.name: stages[plan.operator(stream.written_by[0]).stage] for stream in between}

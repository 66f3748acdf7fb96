"""The steps of a reset after which the pipeline begins at start points: what is kept is removed, and then checkpoints
are written that have offsets and nothing else."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from ...planner.plan import Plan
from ...planner.settings import Settings
from ..reset_step import ResetStep
from ..systems.contract import System
from .checkpoints.checkpoint import Checkpoints, checkpoints_in, encode
from .input_offsets import OffsetByPartition, start_points
from .reset_steps import reset_steps


@contextmanager
def start_steps(
    plan: Plan, system: System, settings: Settings, starting: Plan, offsets: OffsetByPartition, *, dry_run: bool = False
) -> Iterator[list[ResetStep]]:
    """The steps that remove all that is kept of a pipeline, and let it begin at these offsets. `starting` is the plan
    that has nothing to go on from. No container can run while the context is open.

    Raises what `reset_steps` raises."""
    with reset_steps(plan, system, settings, None, dry_run=dry_run) as steps:
        starts = start_points(starting, offsets)
        shown = ", ".join(
            f"{stream}/{partition} at {offset}" for (stream, partition), offset in sorted(offsets.items())
        )
        others = [step for step in steps if step.kind != "checkpoint"]
        # At once and last: a reset that is cut off before leaves checkpoints without state, which no run goes on from.
        yield [*others, ResetStep("start", shown, partial(_replace, plan, system, starts))]


def _replace(plan: Plan, system: System, starts: Checkpoints) -> None:
    """Put these checkpoints in the place of all that there are."""
    removed = dict.fromkeys(checkpoints_in(system, plan.name), b"")
    with closing(system.producer()) as producer:
        producer.begin().commit(plan.name, {**removed, **{task: encode(one) for task, one in starts.items()}})

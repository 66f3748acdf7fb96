"""`scale`: changes the number of containers of a pipeline while it runs."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import flag, require
from ..dsl.verb_calls import explained_call
from ..planner.settings import Settings
from .launch import checked_plan
from .local.checkpoints.checkpoint import checkpoints_in
from .local.checkpoints.rescaled import plan_before
from .local.handover.scaling import TaskMove, scale_containers
from .systems import open_system
from .systems.contract import System

SCALE_TIMEOUT = timedelta(minutes=30)


def _say_nothing(line: str) -> None:
    """Tell nobody what a scale waits for."""


@partial(explained_call, error=UsageError)
def scale(
    pipeline: Pipeline,
    *,
    containers: int,
    system: str | System,
    dry_run: bool = False,
    timeout: timedelta = SCALE_TIMEOUT,
    say: Callable[[str], None] = _say_nothing,
) -> list[TaskMove]:
    """Let a pipeline that runs on Kafka have so many containers, without stopping it.

    The next container restores the state of the tasks that it is to get while the present ones go on with them, and
    then takes them over. Other tasks go on meanwhile. Returns once each task is with its container: the tasks that have
    moved, or with `dry_run` those that would move. `say` is told what it waits for.

    Where it takes longer than `timeout`, or is interrupted, the pipeline goes back to the containers of before.

    `fluvial run` starts and ends the containers that it has begun with `--containers`. Others are to be started by
    whoever has started them: one with each new number.

    Raises UnsupportedError for a system other than Kafka; SystemProblem for a pipeline of which not all containers run,
    or whose run ends by itself, and after `timeout`; PlanError for a run that has other tasks than this pipeline.

    >>> moves = scale(pipeline, containers=4, system="kafka://localhost:9092", dry_run=True)  # doctest: +SKIP
    >>> [f"{move.task} from {move.container} to {move.to}" for move in moves]  # doctest: +SKIP
    ['clicks/1 from 1 to 2', 'visits-by-user/1 from 1 to 3']
    """
    valid = type(containers) is int and containers >= 1
    require(valid, UsageError, f"containers={containers!r}", "a number of containers, 1 or more", "write containers=4")
    flag("scale: dry_run", dry_run)
    valid = isinstance(timeout, timedelta) and timeout > timedelta(0)
    require(valid, UsageError, f"timeout={timeout!r}", "a timedelta above 0", "write timeout=timedelta(minutes=30)")
    streams = open_system(system)
    planned = checked_plan(pipeline, streams, Settings())
    planned = plan_before(planned, checkpoints_in(streams, planned.name))
    return scale_containers(planned, streams, containers, timeout=timeout, dry_run=dry_run, say=say)

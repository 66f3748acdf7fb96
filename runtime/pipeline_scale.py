"""`scale`: changes the containers and the elasticity of a pipeline while it runs."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import flag, require
from ..dsl.verb_calls import explained_call
from ..planner.settings import Grouping, Settings
from .launch import checked_plan
from .local.handover.scaling import TaskMove, scale_run
from .systems import open_system
from .systems.contract import System

# The containers that are to take tasks over restore their state first, which may be many gigabytes.
SCALE_TIMEOUT = timedelta(minutes=30)


def _say_nothing(line: str) -> None:
    """Tell nobody what a scale waits for."""


@partial(explained_call, error=UsageError)
def scale(
    pipeline: Pipeline,
    *,
    system: str | System,
    containers: int | None = None,
    elasticity: int | Mapping[str, int] | None = None,
    group_by: Grouping | Mapping[str, Grouping] = "partition",
    dry_run: bool = False,
    timeout: timedelta = SCALE_TIMEOUT,
    say: Callable[[str], None] = _say_nothing,
) -> list[TaskMove]:
    """Let a pipeline that runs on Kafka have so many containers, or another elasticity, without stopping it.

    `elasticity` is the number of key buckets that each task is split into, for all stages or for some by id; None, or a
    stage that is not named, stays as it is. So does the number of `containers` with None. `group_by` is that of the
    settings of the run.

    The next container restores the state of the tasks that it is to get while the present ones go on with them, and
    then takes them over. Other tasks go on meanwhile. A task that is split goes on until the containers of all of its
    parts are ready. Tasks that are merged move to one container first, where they wait for each other. Returns once
    each task is with its container: the tasks that have moved, or that others were split or merged into; or with
    `dry_run` those that would be. `say` is given what it waits for, as text.

    Where it takes longer than `timeout`, or is interrupted, the pipeline goes back to the containers and the tasks of
    before.

    `fluvial run` starts and ends the containers that it has begun with `--containers`. Others are to be started by
    whoever has started them: one with each new number.

    Raises UnsupportedError for a system other than Kafka; SystemProblem for a pipeline of which not all containers run,
    or whose run ends by itself, and after `timeout`; PlanError for a run that has other tasks than this pipeline.

    >>> moves = scale(pipeline, containers=4, system="kafka://localhost:9092", dry_run=True)  # doctest: +SKIP
    >>> [f"{move.task} from {move.container} to {move.to}" for move in moves]  # doctest: +SKIP
    ['clicks/1 from 1 to 2', 'visits-by-user/1 from 1 to 3']
    """
    valid = containers is None or (type(containers) is int and containers >= 1)
    require(valid, UsageError, f"containers={containers!r}", "a number of containers, 1 or more", "write containers=4")
    valid, remedy = containers is not None or elasticity is not None, "write containers=4, elasticity=2, or both"
    require(valid, UsageError, "scale() without containers and elasticity", "what is to change", remedy)
    flag("scale: dry_run", dry_run)
    valid = isinstance(timeout, timedelta) and timeout > timedelta(0)
    require(valid, UsageError, f"timeout={timeout!r}", "a timedelta above 0", "write timeout=timedelta(minutes=30)")
    streams = open_system(system)
    settings = Settings(elasticity=1 if elasticity is None else elasticity, group_by=group_by)
    planned = checked_plan(pipeline, streams, settings)
    elastic = [stage.id for stage in planned.stages] if isinstance(elasticity, int) else [*(elasticity or ())]
    return scale_run(planned, streams, containers, elastic=elastic, timeout=timeout, dry_run=dry_run, say=say)

"""`drain`: lets a pipeline that runs end, with nothing left inside."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import flag, require
from ..dsl.verb_calls import explained_call
from ..planner.settings import Grouping, Settings
from .launch import checked_plan
from .local.handover.run_drain import SourceEnds, drain_run
from .systems import open_system
from .systems.contract import System

DRAIN_TIMEOUT = timedelta(minutes=10)


def _say_nothing(line: str) -> None:
    """Tell nobody what a drain waits for."""


@partial(explained_call, error=UsageError)
def drain(
    pipeline: Pipeline,
    *,
    system: str | System,
    group_by: Grouping | Mapping[str, Grouping] = "partition",
    dry_run: bool = False,
    timeout: timedelta = DRAIN_TIMEOUT,
    say: Callable[[str], None] = _say_nothing,
) -> SourceEnds:
    """Let a pipeline that runs on the local engine end as `run(until="end")` does, with nothing left inside.

    It reads its sources up to the offsets that they have now, which are returned, by stream and partition; with
    `dry_run` those that it would be. All that is inside leaves: intermediate streams are read to their ends, windows,
    timers and unmatched rows fire. Then it commits, and each container ends with exit code 0. The next run goes on from
    there.

    Waits until all containers have ended, up to `timeout`, and tells `say` for which. A drain is not taken back: behind
    `timeout`, and if this is interrupted, the run goes on to its end, and another call waits on. A run that was killed
    meanwhile, and is begun anew, goes on as if nobody had asked.

    Raises SystemProblem for a pipeline that does not run, or whose run ends by itself, and after `timeout`; PlanError
    for a run that has other tasks than this pipeline. `group_by` is that of the settings of the run.

    >>> drain(pipeline, system="kafka://localhost:9092", dry_run=True)  # doctest: +SKIP
    {'clicks': [1200, 1187]}
    """
    flag("drain: dry_run", dry_run)
    valid = isinstance(timeout, timedelta) and timeout > timedelta(0)
    require(valid, UsageError, f"timeout={timeout!r}", "a timedelta above 0", "write timeout=timedelta(minutes=10)")
    streams = open_system(system)
    planned = checked_plan(pipeline, streams, Settings(group_by=group_by))
    return drain_run(planned, streams, timeout=timeout, dry_run=dry_run, say=say)

"""How far jobs of Spark are: their tasks, as Spark's status tracker counts them."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo


class JobTasks(NamedTuple):
    """Numbers of tasks: those that are `done`, of `all` of them."""

    done: int
    all: int


NO_TASKS = JobTasks(0, 0)


def sum_of(parts: Iterable[JobTasks]) -> JobTasks:
    """The tasks of several jobs together.

    >>> sum_of([JobTasks(1, 4), JobTasks(2, 2)])
    JobTasks(done=3, all=6)
    """
    counts = list(parts)
    return JobTasks(sum(part.done for part in counts), sum(part.all for part in counts))


def tasks_of(context: "SparkContext", jobs: Iterable[int]) -> JobTasks:
    """The tasks of jobs. Spark forgets old jobs and stages, whose tasks are left out then."""
    # A task that Spark runs twice may be counted twice.
    stages = _stages(context, jobs)
    return sum_of(JobTasks(min(stage.numCompletedTasks, stage.numTasks), stage.numTasks) for stage in stages)


def runs_a_task(context: "SparkContext", jobs: Iterable[int]) -> bool:
    """Whether a task of these jobs has a core."""
    return any(stage.numActiveTasks for stage in _stages(context, jobs))


def _stages(context: "SparkContext", jobs: Iterable[int]) -> "Iterator[SparkStageInfo]":
    tracker = context.statusTracker()
    infos = (tracker.getJobInfo(job) for job in jobs)
    # Two jobs may share a stage, whose outputs the second one finds.
    stages = {stage for info in infos if info is not None for stage in info.stageIds}
    return (info for stage in stages if (info := tracker.getStageInfo(stage)) is not None)


def jobs_with_tag(context: "SparkContext", tag: str) -> list[int]:
    """The jobs that were begun with a tag. PySpark does not offer what its Java has."""
    jvm: Any = context._jsc
    return list(jvm.sc().statusTracker().getJobIdsForTag(tag))


def jobs_of_group(context: "SparkContext", group: str) -> list[int]:
    """The ids of the jobs of a job group that Spark still knows, running or ended."""
    return context.statusTracker().getJobIdsForGroup(group)

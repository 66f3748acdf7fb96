"""How far jobs are, by a status tracker that says what a test wants."""

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark", reason="the tasks are Spark's")

from pyspark import SparkJobInfo, SparkStageInfo

from fluvial.runtime.spark.query.job_tasks import NO_TASKS, JobTasks, runs_a_task, tasks_of

if TYPE_CHECKING:
    from pyspark import SparkContext


def context(
    jobs: dict[int, list[int]], stages: dict[int, tuple[int, int]], active: Mapping[int, int] = MappingProxyType({})
) -> "SparkContext":
    """A context with the stages of jobs, (done, all) tasks of stages, and how many are active."""

    def job(id: int) -> SparkJobInfo | None:
        return SparkJobInfo(id, cast("Any", jobs[id]), "RUNNING") if id in jobs else None

    def stage(id: int) -> SparkStageInfo | None:
        done, all_tasks = stages.get(id, (0, 0))
        return SparkStageInfo(id, 0, "stage", all_tasks, active.get(id, 0), done, 0) if id in stages else None

    tracker = SimpleNamespace(getJobInfo=job, getStageInfo=stage)
    return cast("SparkContext", SimpleNamespace(statusTracker=lambda: tracker))


def test_the_tasks_of_all_stages_count_also_of_those_that_wait() -> None:
    assert tasks_of(context({7: [1, 2]}, {1: (3, 4), 2: (0, 8), 3: (1, 1)}), [7]) == JobTasks(3, 12)


def test_a_stage_of_two_jobs_counts_once_and_no_task_twice() -> None:
    assert tasks_of(context({7: [1, 2], 8: [2, 3]}, {1: (4, 4), 2: (9, 8), 3: (0, 2)}), [7, 8]) == JobTasks(12, 14)


def test_a_job_runs_a_task_once_one_has_a_core() -> None:
    jobs, stages = {7: [1], 8: [2], 9: [2, 3]}, {1: (0, 1), 2: (4, 4), 3: (1, 2)}
    assert [runs_a_task(context(jobs, stages, active={3: 1}), [job]) for job in (6, 7, 8, 9)] == [False] * 3 + [True]


def test_what_spark_has_forgotten_is_left_out() -> None:
    assert tasks_of(context({7: [1, 2]}, {2: (1, 2)}), [6, 7]) == JobTasks(1, 2)
    assert tasks_of(context({}, {}), []) == NO_TASKS

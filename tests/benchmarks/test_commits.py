"""What makes a run to the end fast: it commits by time and at the end, not with each batch that it reads."""

from datetime import timedelta
from pathlib import Path

from benchmarks.workloads import PARTITIONS, WORKLOADS, make_input
from fluvial.runtime import Settings, run
from fluvial.runtime.systems import LogSystem


def test_a_task_commits_when_it_has_read_all_there_is(tmp_path: Path) -> None:
    workload = WORKLOADS["count_1k"]
    make_input(workload, 40_000, tmp_path, lambda _: None)  # at least four batches for each task
    settings = Settings(commit_interval=timedelta(hours=1))
    report = run(workload.pipeline, system=LogSystem(tmp_path), settings=settings, until="end")
    # Once when the input is read, and perhaps once more for what the end of time set free.
    assert report.checkpoints <= 2 * PARTITIONS

"""A pipeline as a batch job over DataFrames that have an end: rows are sorted by time and streamed through the stages.

There is no streaming query, no checkpoint, and no state that stays. The results are those of a run over the same
messages in which nothing is late.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from ....planner.plan import Plan, PlannedStage
from ....planner.settings import Settings
from ...data_frames.bindings import DataFrames
from ...kernel.state_cache import Size
from ...kernel.time.bounds import START
from ...process.clock import wall_clock
from ..batch_report import BatchReport
from ..batch_times import StreamTime
from ..connectors.written_counts import reports_of
from ..key_buckets import KeyBuckets, default_count
from ..lowering.levels import Levels
from ..lowering.lowering import components, levels
from ..lowering.packaging import PlanBundle
from ..lowering.shipped_plan import ShippedPlan
from ..query.repartitioning import check_tasks
from ..query.stage_times import StageTimes
from ..worker.batch_level import SORTED, SPARK_SCHEMA, JobTimes, batch_level, timed_batch
from ..worker.outputs import RowOutputs
from .input_rows import input_rows
from .job_session import cores_of, shipped
from .output_schema import OutputSchema, typed_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One connected part of a plan, with all that its workers need to know."""

    plan: Plan
    levels: Levels
    buckets: KeyBuckets
    shipped: ShippedPlan
    tasks: int

    @property
    def sources(self) -> list[str]:
        """The streams that it reads."""
        return [name for name in self.levels.of_stream if self.plan.stream(name).kind == "source"]

    @property
    def outputs(self) -> list[str]:
        """The streams that it writes, dead letters among them."""
        stages = set(self.levels.of_stage)
        written = (name for operator in self.plan.operators if operator.stage in stages for name in operator.writes)
        letters = (stream.name for stream in self.plan.streams if stream.kind == "dead-letters")
        return [*dict.fromkeys(written), *letters]


def batch_jobs(
    session: "SparkSession", plan: Plan, settings: Settings, schemas: dict[str, OutputSchema]
) -> list[BatchJob]:
    """The jobs of a plan, one for each connected part. `schemas` are those of the DataFrames that it writes."""
    jobs = [_job(session, plan, stages, settings, schemas) for stages in components(plan)]
    run = hashlib.sha256("".join(job.shipped.digest for job in jobs).encode()).hexdigest()
    return [replace(job, shipped=replace(job.shipped, run=run)) for job in jobs]


def _job(
    session: "SparkSession",
    plan: Plan,
    stages: list[PlannedStage],
    settings: Settings,
    schemas: dict[str, OutputSchema],
) -> BatchJob:
    cores = cores_of(session)
    buckets = KeyBuckets(settings.spark_buckets or default_count(cores))
    check_tasks(settings.spark_shuffle_partitions, buckets, plan.pipeline.origin)
    of_levels = levels(plan, stages, buckets.count)
    tasks = settings.spark_shuffle_partitions or buckets.partitions(cores)
    bundle = PlanBundle(
        plan,
        of_levels,
        buckets,
        Size(settings.cached_entries, settings.cached_bytes),
        keeps_at_end=False,
        open_within=settings.stall_timeout,
        frames={name: schema.columns for name, schema in schemas.items()},
        without_offsets=frozenset(source.stream for source in plan.pipeline.sources),
        by_time=frozenset(of_levels.of_stream),
        tasks=max(tasks, cores),
    )
    return BatchJob(plan, of_levels, buckets, shipped(session, bundle), tasks)


def job_rows(
    session: "SparkSession", job: BatchJob, frames: DataFrames, keep: Callable[["DataFrame"], "DataFrame"]
) -> "DataFrame":
    """The rows that a job makes of its DataFrames: those that leave the query, and reports. `keep` is given rows that
    are used twice, and may have Spark keep them."""
    made, outputs = timed_batch(job.shipped), RowOutputs()
    inputs = [
        input_rows(session, job.plan, stream, frames, job.shipped, outputs, SPARK_SCHEMA, made)
        for stream in job.sources
    ]
    rows = reduce(lambda one, other: one.union(other), inputs)
    times = JobTimes(wall_clock())
    if job.levels.ends_apart:
        rows = keep(rows)
        times = replace(times, last=last_times(job.plan, job.levels, reports_of(rows)))
    for level in range(1, job.levels.count):
        # A task has some buckets, one after the other, and each by time.
        rows = rows.repartition(job.tasks, "bucket").sortWithinPartitions(*SORTED)
        rows = rows.mapInArrow(batch_level(job.shipped, level, times, outputs), SPARK_SCHEMA)
    return rows


def last_times(plan: Plan, levels: Levels, report: BatchReport) -> dict[str, StreamTime]:
    """The watermark of each stream behind level 0 before the end of the input, by what level 0 has reported."""
    sources: dict[str, dict[int, StreamTime]] = {}
    for partition, mark in report.counts.watermarks.items():
        stream, _, number = partition.rpartition("/")
        sources.setdefault(stream, {})[int(number)] = (mark, False)
    return StageTimes(plan, levels).advance(sources, START)


def typed_frames(made: Sequence[tuple[BatchJob, "DataFrame"]], stream: str, schema: OutputSchema) -> "DataFrame":
    """The messages of a stream in the rows of all jobs that write it."""
    parts = [typed_frame(rows, job.shipped, stream, schema) for job, rows in made if stream in job.outputs]
    return reduce(lambda one, other: one.union(other), parts)

"""A stream of a pipeline as a DataFrame that Spark computes when it is used."""

from functools import reduce
from typing import TYPE_CHECKING, Any

from ....dsl.errors import UnsupportedError
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.settings import Settings
from ...data_frames.bindings import DataFrameOutput, DataFrames
from ..worker.outputs import RowOutputs
from .batch_job import BatchJob, batch_jobs, job_rows, typed_frames
from .input_rows import input_rows
from .job_session import in_session, job_session, session_of
from .output_schema import output_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def data_frame(plan: Plan, stream: str, output: DataFrameOutput, frames: DataFrames, settings: Settings) -> "DataFrame":
    """The messages of a stream as a DataFrame in the session of the inputs. A streaming one is possible where the
    stream depends on no state."""
    theirs: Any = session_of(frames, None)
    with job_session(frames, None) as session:
        schema = output_schema(plan, stream, output, frames.backfill)
        jobs = batch_jobs(session, plan, settings, {stream: schema})
        job_frames = [(job, _rows(session, job, stream, frames)) for job in jobs if stream in job.outputs]
        return in_session(theirs, typed_frames(job_frames, stream, schema))


def _rows(session: "SparkSession", job: BatchJob, stream: str, frames: DataFrames) -> "DataFrame":
    if frames.bounded:
        return job_rows(session, job, frames, keep=_as_it_is)
    return _streaming(session, job, stream, frames)


def _as_it_is(rows: "DataFrame") -> "DataFrame":
    """Rows that are used twice are computed twice: nobody would free them."""
    return rows


def _streaming(session: "SparkSession", job: BatchJob, stream: str, frames: DataFrames) -> "DataFrame":
    stages = [job.plan.operator(id).stage for id in job.plan.stream(stream).written_by]
    behind = [stage for stage in stages if job.levels.of_stage[stage] > 0]
    if behind:
        wrong = f"a streaming DataFrame of {stream!r}, which comes from behind a shuffle, in stage {behind[0]!r}"
        expected = "a stream that depends on no state, or inputs that have an end: the driver of a run keeps the time"
        remedy = f'run it: run(pipeline, engine="spark", inputs=..., outputs={{{stream!r}: lambda frame, batch: ...}})'
        raise UnsupportedError(explain(wrong, expected, remedy, job.plan.pipeline.origin))
    outputs = RowOutputs()
    rows = [input_rows(session, job.plan, source, frames, job.shipped, outputs) for source in job.sources]
    return reduce(lambda one, other: one.union(other), rows)

"""Runs a plan as a batch job: all of its DataFrames are read to their ends, and each output is written once."""

import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ....dsl.errors import FluvialError, PipelineError, SystemProblem
from ....dsl.origin import Origin
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.settings import Settings
from ...data_frames.bindings import DataFrames
from ...process.interruptions import interruptions_raised
from ...process.resource_limits import exhaustion_explained
from ...process.signals import stop_signals
from ...process.stop_request import Stopped, StopRequest
from ...report import OnProgress, Progress, Report
from ..batch_report import BatchReport
from ..connectors.written_counts import reports_of
from ..query.java_process import java_end_explained, reason
from ..query.metrics import task_samples
from ..query.progress import PROGRESS_SECONDS, report_of
from ..query.supervision import problem
from .batch_job import BatchJob, batch_jobs, job_rows, typed_frames
from .job_session import begin_group, cancel_group, group_tasks, in_session, job_session, users_session
from .job_warnings import job_warnings
from .output_schema import OutputSchema, output_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_SECONDS = 0.2
"""Time between two looks at whether the run was asked to stop."""


def run_batch(plan: Plan, frames: DataFrames, settings: Settings, progress: OnProgress | None, spark: Any) -> Report:
    """Run a plan over DataFrames that have an end. Raises SystemProblem if it is stopped before it is done."""
    started, report = time.monotonic(), BatchReport()
    try:
        with (
            exhaustion_explained(),
            stop_signals() as stop,
            interruptions_raised(),
            java_end_explained(stop),
            job_session(frames, spark) as session,
        ):
            stop.begin()
            schemas = output_schemas(plan, frames)
            jobs = batch_jobs(session, plan, settings, schemas)
            watch = _watch(plan, session, started, progress)
            ended = _ran(session, stop, partial(_run_jobs, session, jobs, frames, schemas, report), watch)
    except Stopped:
        ended = False
    if not ended:
        raise _was_stopped(plan)
    warnings = job_warnings(plan, report.counts, frames.inputs)
    done = report_of(plan, report.counts.by_kind, time.monotonic() - started, warnings=warnings)
    if progress is not None:
        progress(_progress(done))
    return done


def _was_stopped(plan: Plan) -> SystemProblem:
    wrong = f"the batch job of {plan.name!r} was stopped before it was done: outputs that were not written are missing"
    return SystemProblem(explain(wrong, "a job that runs to its end", "start it again", plan.pipeline.origin))


def _progress(done: Report) -> Progress:
    """The progress at the end of a run."""
    read, written = sum(done.read.values()), sum(done.written.values())
    return Progress(
        phase="done", seconds=done.seconds, read=read, written=written, lag=0, pipeline=done.pipeline, engine="spark"
    )


def _watch(plan: Plan, session: "SparkSession", started: float, progress: OnProgress | None) -> Callable[[str], None]:
    """What is called again and again while the jobs of a group run: it reports how many of their tasks are done, about
    once a second. Counts are known once all of them are."""
    due = started

    def watch(group: str) -> None:
        nonlocal due
        now = time.monotonic()
        if progress is None or now < due:
            return
        due = now + PROGRESS_SECONDS
        tasks = group_tasks(session, group)
        progress(
            Progress(
                phase="running",
                seconds=now - started,
                read=0,
                written=0,
                pipeline=plan.name,
                engine="spark",
                facts=() if tasks is None else tuple(task_samples(tasks)),
                batch_tasks_done=None if tasks is None else tasks.done,
                batch_tasks=None if tasks is None else tasks.all,
            )
        )

    return watch


def _run_jobs(
    session: "SparkSession",
    jobs: list[BatchJob],
    frames: DataFrames,
    schemas: Mapping[str, OutputSchema],
    report: BatchReport,
) -> None:
    """Run the jobs of a plan, write each output once no task has failed, and add what the tasks have reported."""
    persisted: list[DataFrame] = []

    def keep(rows: "DataFrame") -> "DataFrame":
        persisted.append(rows.persist())
        return persisted[-1]

    try:
        # The rows are computed once: for the reports, and for each output.
        job_frames = [(job, keep(job_rows(session, job, frames, keep))) for job in jobs]
        for _, rows in job_frames:
            report.add(reports_of(rows))
        for stream, schema in schemas.items():
            frame = typed_frames(job_frames, stream, schema)
            write_output(jobs[0].plan, stream, frames, frame, 0, users_session(frames, None))
    finally:
        for rows in persisted:
            rows.unpersist()


def write_output(plan: Plan, stream: str, frames: DataFrames, frame: "DataFrame", batch: int, theirs: Any) -> None:
    """Hand the rows of a batch to the function that writes them, in the user's session `theirs`. Raises PipelineError
    if it fails."""
    output = frames.outputs[stream]
    given = frame if theirs is None else in_session(theirs, frame)
    write = output.write if frames.backfill is None else output.overwrite
    assert write is not None
    try:
        write(given, batch if frames.backfill is None else frames.backfill)  # type: ignore[arg-type]
    except FluvialError:
        raise
    except Exception as error:
        wrong = f"the function that writes the output {stream!r} has failed: {type(error).__name__}: {reason(error)}"
        expected, code = "a function that writes the rows of a batch", getattr(write, "__code__", None)
        at = plan.pipeline.origin if code is None else Origin(code.co_filename, code.co_firstlineno)
        raise PipelineError(explain(wrong, expected, "correct it", at)) from error


def _ran(session: "SparkSession", stop: StopRequest, work: Callable[[], None], watch: Callable[[str], None]) -> bool:
    """Do work whose jobs on Spark are cancelled if the run is asked to stop. Returns whether it has come to its end.
    `watch` is called with the group of the jobs meanwhile."""
    tag = f"fluvial-{uuid.uuid4().hex}"
    errors: list[BaseException] = []

    def guarded() -> None:
        begin_group(session, tag)
        try:
            work()
        # Raised by the thread that waits for this one.
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=guarded, name=tag)
    thread.start()
    try:
        while thread.is_alive() and not stop():
            thread.join(POLL_SECONDS)
            watch(tag)
    finally:
        while thread.is_alive():  # again and again, where the next job cannot be cancelled before it begins
            cancel_group(session, tag)
            thread.join(POLL_SECONDS)
    if errors and not stop():
        raise _explained(errors[0])
    return not errors


def _explained(error: BaseException) -> BaseException:
    return problem(error, 1) if isinstance(error, PySparkException | Py4JJavaError) else error

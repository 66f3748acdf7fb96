"""The session in which a batch job runs: one of Spark in this process, or one of Spark Connect, which has no Java here.

A batch job needs DataFrames and functions over them alone, so it runs on both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ....dsl.errors import UnsupportedError
from ....dsl.validation import explain
from ...data_frames.bindings import DataFrames
from ...data_frames.connect_server import is_of_connect
from ..lowering.packaging import PlanBundle, add_shipped_plan, pack
from ..lowering.shipped_plan import ShippedPlan
from ..query.job_tasks import JobTasks, jobs_of_group, tasks_of
from ..query.session import session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
_ROWS = 10_000
"""Enough rows for each core to have some."""


def refuse_large_types(session: Any) -> None:
    """Raise UnsupportedError for a session in which Arrow's columns are of other types than Fluvial makes."""
    if session is not None and session.conf.get(_LARGE_TYPES, "false") == "true":
        wrong = f"the session of the DataFrames has {_LARGE_TYPES}=true"
        remedy = f'spark.conf.set("{_LARGE_TYPES}", "false")'
        raise UnsupportedError(explain(wrong, "false, as it is by default", remedy))


def session_of(frames: DataFrames, spark: Any) -> Any:
    """The session that a run is to use: the one that is passed in, else that of its DataFrames."""
    if spark is not None or not frames.inputs:
        return spark
    return next(iter(frames.inputs.values())).frame.sparkSession


def users_session(frames: DataFrames, spark: Any) -> Any:
    """The session in which functions of the user's write: that of the DataFrames, else the one that is passed in, else
    the one that this process has. None if it has none."""
    if frames.inputs or isinstance(spark, str):
        spark = None
    if (session := session_of(frames, spark)) is not None:
        return session
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession()


@contextmanager
def job_session(frames: DataFrames, spark: Any) -> Iterator["SparkSession"]:
    """The session of a job: a new one beside the user's, or the user's own on Spark Connect, which keeps DataFrames of
    different sessions apart."""
    theirs = session_of(frames, spark)
    refuse_large_types(session_of(frames, None))
    if is_of_connect(theirs):
        yield theirs
    else:
        with session_for(theirs) as session:
            yield session


def cores_of(session: "SparkSession") -> int:
    """How many tasks Spark runs at a time."""
    if is_of_connect(session):
        return session.range(_ROWS).selectExpr("spark_partition_id() AS part").distinct().count()
    return session.sparkContext.defaultParallelism


def shipped(session: "SparkSession", bundle: PlanBundle) -> ShippedPlan:
    """A plan on its way to workers: as a file, and on Spark Connect within the functions that need it."""
    packed = pack(bundle)
    return packed if is_of_connect(session) else add_shipped_plan(packed, session)


def begin_group(session: "SparkSession", name: str) -> None:
    """Begin a group of jobs: all that this thread begins from now on."""
    if is_of_connect(session):
        session.addTag(name)
    else:
        session.sparkContext.setJobGroup(name, "Fluvial: batch job", interruptOnCancel=True)


def cancel_group(session: "SparkSession", name: str) -> None:
    """Cancel the jobs of a group; and those that would begin later, but for Spark Connect, which has no such call."""
    if is_of_connect(session):
        session.interruptTag(name)
    else:
        context: Any = session.sparkContext._jsc
        context.sc().cancelJobGroupAndFutureJobs(name)


def group_tasks(session: "SparkSession", name: str) -> JobTasks | None:
    """The tasks of a group's jobs that have begun. None on Spark Connect, which does not tell."""
    if is_of_connect(session):
        return None
    context = session.sparkContext
    return tasks_of(context, jobs_of_group(context, name))


def in_session(session: "SparkSession", frame: "DataFrame") -> "DataFrame":
    """A DataFrame of another session in this one, whose settings hold for it then."""
    if frame.sparkSession is session:
        return frame
    from pyspark.sql import DataFrame  # noqa: PLC0415

    jvm: Any = session._jvm
    theirs: Any = frame._jdf
    dataset = jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(session._jsparkSession, theirs.queryExecution().analyzed()), session)

"""The Spark session that a run uses: the user's, or one of its own."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ...dsl.checks import explain
from ...dsl.errors import SystemProblem, UsageError
from ...planner.settings import Settings
from ..data_files import UMASK
from ..modules import hides_modules, own_paths
from .rows import ARROW_BYTES, ARROW_RECORDS

_SECRETS = "(?i)url|jaas|ssl"
"""Options that Spark shows no values of, besides those with `password`, `secret` or `token` in their names."""
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def session_for(spark: Any, settings: Settings) -> Iterator[SparkSession]:
    """A session with our settings. One that is handed in gets its own settings back at the end, and stays up.

    So does one that this process has already. Else a master's URL, or None for this machine, starts a session that is
    stopped at the end.
    """
    session, own = (spark, False) if isinstance(spark, SparkSession) else _there_or_started(spark)
    try:
        with _configured(session, _told(session, settings)):
            yield session
    finally:
        if own:
            session.stop()


def _there_or_started(master: str | None) -> tuple[SparkSession, bool]:
    """The session of this process, and whether it was started here. Spark gives a process one context: whoever starts a
    second gets the first."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return _start(master), True
    if master in (None, session.sparkContext.master):
        return session, False
    wrong = f"spark={master!r}, where this process has a session of {session.sparkContext.master!r}"
    raise UsageError(explain(wrong, "one Spark in a process", "stop that session, or hand it in as spark="))


def _start(master: str | None) -> SparkSession:
    look_where_this_process_does()
    builder = SparkSession.builder.appName("fluvial").master(master or "local[*]")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    if UMASK in os.environ:
        quiet[f"spark.executorEnv.{UMASK}"] = os.environ[UMASK]
    for name, value in quiet.items():
        builder = builder.config(name, value)
    with _chatter_aside() as chatter:
        try:
            return builder.getOrCreate()
        except Exception as error:
            wrong = f"Spark does not start: {error}"
            remedy = f"see what it said in {chatter}; Spark needs Java 17 or later, on the PATH or under JAVA_HOME"
            raise SystemProblem(
                explain(wrong, "a Spark on this machine, or the master of a cluster", remedy)
            ) from error


def look_where_this_process_does() -> None:
    """Let processes that are started from here have this interpreter and find the user's modules."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = own_paths()
    paths = [*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    # A folder whose modules would take the places of Python's is added where a plan is unpacked.
    found = dict.fromkeys(path for path in paths if path and not (path in own and hides_modules(path)))
    os.environ["PYTHONPATH"] = os.pathsep.join(found)
    if hides_modules(str(Path.cwd())):
        os.environ["PYTHONSAFEPATH"] = "1"  # else they look in the current folder first


@contextmanager
def _chatter_aside() -> Iterator[Path]:
    """Meanwhile, what is started writes its standard error to a file. Spark's Java process says much of no use to the
    user, about each worker it starts; it keeps this file for as long as it lives."""
    # The name is drawn, and the file made by this call: nobody can have put another in its place.
    aside, name = tempfile.mkstemp(prefix=f"fluvial-spark-{os.getpid()}-", suffix=".log")
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(aside, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(aside)


def _told(session: SparkSession, settings: Settings) -> dict[str, str]:
    tasks = settings.spark_shuffle_partitions or min(settings.spark_buckets, session.sparkContext.defaultParallelism)
    return {
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.encodingFormat": "avro",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_RECORDS),
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        # Else Spark starts other processes for stateful operators, which do not know this setting, than for the rest.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.sql.redaction.options.regex": _SECRETS,
    }


@contextmanager
def _configured(session: SparkSession, told: dict[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in told}
    for name, value in told.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)

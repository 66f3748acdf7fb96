"""The Spark session that a run uses: the user's, or one of its own."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, current_thread, main_thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ....dsl.errors import SystemProblem, UsageError
from ....dsl.validation import explain
from ....planner.settings import Settings
from ...data_files import UMASK
from ...user_modules import hides_modules, own_paths
from ..rows import ARROW_BYTES, ARROW_RECORDS
from .java_process import forget_ended_java, launch_java, reason

_SECRETS = "(?i)url|jaas|ssl"
"""Options that Spark shows no values of, besides those with `password`, `secret` or `token` in their names."""
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def session_for(spark: Any, settings: Settings) -> Iterator[SparkSession]:
    """A session for one run, with our settings: it shares the context of the session that is handed in, or that this
    process has, and begins with its settings; those of that session stay as they are.

    Else a master's URL, or None for this machine, starts a context. Runs that come meanwhile share it, and the last one
    stops it.
    """
    with _context(spark) as found:
        session = found.newSession()
        theirs, ours = found.conf.getAll, session.conf.getAll
        changed = {name: value for name, value in theirs.items() if ours.get(name) != value}
        for name, value in changed.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        for name, value in _told(session, settings).items():
            session.conf.set(name, value)
        yield session


@dataclass
class _Started:
    """The session that runs have started in this process, and how many of them use it."""

    session: SparkSession | None = None
    runs: int = 0


_STARTED, _LOCK = _Started(), Lock()


@contextmanager
def _context(spark: Any) -> Iterator[SparkSession]:
    """A session of the context that a run uses."""
    if isinstance(spark, SparkSession):
        if _is_stopped(spark):
            raise UsageError(explain("the session handed in as spark= is stopped", "one that runs", "start another"))
        yield spark
        return
    if not (spark is None or isinstance(spark, str)):
        expected = "a SparkSession of this process, the URL of a master, or None; not one of Spark Connect"
        raise UsageError(explain(f"spark={spark!r}", expected))
    with _LOCK:
        if forget_ended_java():
            _STARTED.session, _STARTED.runs = None, 0
        session = _STARTED.session or _active_session() or _start(spark)
        _check_master(session, spark)
        _STARTED.runs += (own := session is _STARTED.session)
    try:
        yield session
    finally:
        if own:
            _leave(session)


def _leave(session: SparkSession) -> None:
    with _LOCK:
        if session is not _STARTED.session:
            return  # its Java has ended, and a later run has started another
        _STARTED.runs -= 1
        if not _STARTED.runs:
            _STARTED.session = None
            session.stop()


def _is_stopped(session: SparkSession) -> bool:
    context: Any = session.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def _active_session() -> SparkSession | None:
    """The session of this process, if it has one. Spark gives a process one context: whoever starts a second gets the
    first."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return None if _is_stopped(session) else session


def _check_master(session: SparkSession, master: str | None) -> None:
    if master not in (None, session.sparkContext.master):
        wrong = f"spark={master!r}, where this process has a session of {session.sparkContext.master!r}"
        raise UsageError(explain(wrong, "one Spark in a process", "stop that session, or hand it in as spark="))


def _start(master: str | None) -> SparkSession:
    """A session that runs start; or the user's, where another thread has made one meanwhile."""
    # In PySpark's order: whoever makes a session meanwhile waits, and starts no second Java.
    with _own_interrupts(), SparkSession.Builder._lock, SparkContext._lock:
        if (there := _active_session()) is not None:
            return there
        share_python_paths()
        told = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
        if UMASK in os.environ:
            told[f"spark.executorEnv.{UMASK}"] = os.environ[UMASK]
        conf = SparkConf().setAppName("fluvial").setMaster(master or "local[*]").setAll(list(told.items()))
        remedy = "Spark needs Java 17 or later, on the PATH or under JAVA_HOME"
        try:
            if SparkContext._gateway is None:
                with _chatter() as (chatter, name):
                    remedy = f"see what it said in {name}; {remedy}"
                    SparkContext._ensure_initialized(gateway=launch_java(conf, chatter))
            _STARTED.session = SparkSession.builder.config(conf=conf).getOrCreate()
        except Exception as error:
            wrong = f"Spark does not start: {reason(error)}"
            expected = "a Spark on this machine, or the master of a cluster"
            raise SystemProblem(explain(wrong, expected, remedy)) from error
        return _STARTED.session


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep this process's way with Ctrl-C: a context of Spark's puts its own in place."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


def share_python_paths() -> None:
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
def _chatter() -> Iterator[tuple[int, Path]]:
    """A new file, and its name. Spark's Java process says much of no use to the user, about each worker it starts; it
    keeps this file for as long as it lives."""
    # The name is drawn, and the file made by this call: nobody can have put another in its place.
    aside, name = tempfile.mkstemp(prefix=f"fluvial-spark-{os.getpid()}-", suffix=".log")
    try:
        yield aside, Path(name)
    finally:
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

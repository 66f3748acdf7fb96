"""The Spark session of a run: in the context of the user's session, or in one that the run starts."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
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
from ...process.data_files import UMASK
from ...process.user_modules import hides_modules, own_paths
from ..rows import ARROW_BYTES, ARROW_RECORDS
from .java_process import forget_ended_java, java_killed_if_it_stands_still, launch_java, quiet_accumulators, reason
from .master import check_reachable, not_taken
from .spark_home import home_for

_CONNECT = "sc://"
"""How the URL of a server of Spark Connect begins."""
_SECRETS = "(?i)url|jaas|ssl"
"""Spark hides the values of options whose names match, as it does by default for `password`, `secret` and `token`."""
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def session_for(spark: Any, argument: str = "spark") -> Iterator[SparkSession]:
    """A new session for one run, with the settings that the engine needs. `argument` is what the user calls `spark`.

    It shares the context of the session that is passed in, or of the session that this process has, and begins with all
    that this session has: settings, views, functions, the current database, listeners to queries. That session does not
    change. If there is none, a context is started: `spark` is the URL of its master, or None for this machine. Runs at
    the same time share it, and the last one stops it.
    """
    with _context(spark, argument) as shared:
        theirs: Any = shared._jsparkSession
        ours: Any = theirs.cloneSession()
        _share_listeners(theirs.streams(), ours.streams())
        session = SparkSession(shared.sparkContext, ours)
        for name, value in _ENGINE_SETTINGS.items():
            session.conf.set(name, value)
        yield session


def _share_listeners(theirs: Any, ours: Any) -> None:
    """Let the listeners of one session hear of the queries of another, too. Those that Spark's settings name, each
    session has already."""
    named = {listener.getClass().getName() for listener in ours.listListeners()}
    for listener in theirs.listListeners():
        if listener.getClass().getName() not in named:
            ours.addListener(listener)


@dataclass
class _Started:
    """The session that a run has started in this process, and the number of runs that use it."""

    session: SparkSession | None = None
    runs: int = 0


_STARTED, _LOCK = _Started(), Lock()


@contextmanager
def _context(spark: Any, argument: str = "spark") -> Iterator[SparkSession]:
    """A session in the context that the run uses."""
    check_session(spark, argument)
    if isinstance(spark, SparkSession):
        yield spark
        return
    with _LOCK:
        if forget_ended_java():
            _STARTED.session, _STARTED.runs = None, 0
        session = _STARTED.session or _active_session() or _start(spark)
        _check_master(session, spark, argument)
        _STARTED.runs += (own := session is _STARTED.session)
    try:
        yield session
    finally:
        if own:
            _leave(session)


def _leave(session: SparkSession) -> None:
    with _LOCK:
        if session is not _STARTED.session:
            return  # its Java process has ended, and a later run has started another
        _STARTED.runs -= 1
        if not _STARTED.runs:
            _STARTED.session = None
            with java_killed_if_it_stands_still():
                session.stop()


def _is_stopped(session: SparkSession) -> bool:
    context: Any = session.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def _active_session() -> SparkSession | None:
    """The session of this process, if it has one. Spark allows one context in a process: a second start returns the
    first."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return None if _is_stopped(session) else session


def check_session(spark: Any, argument: str) -> None:
    """Raise UsageError for what is neither a session that runs, nor the URL of a master, nor None."""
    if isinstance(spark, SparkSession):
        if _is_stopped(spark):
            wrong = f"the session handed in as {argument}= is stopped"
            raise UsageError(explain(wrong, "one that runs", "start another"))
    elif not (spark is None or isinstance(spark, str)) or str(spark).startswith(_CONNECT):
        expected = "a SparkSession of this process, the URL of a master, or None; not one of Spark Connect"
        remedy = "on Spark Connect run a batch job, over DataFrames of its session as inputs="
        raise UsageError(explain(f"{argument}={spark!r}", expected, remedy))


def _check_master(session: SparkSession, master: str | None, argument: str) -> None:
    if master not in (None, session.sparkContext.master):
        wrong = f"{argument}={master!r}, where this process has a session of {session.sparkContext.master!r}"
        raise UsageError(explain(wrong, "one Spark in a process", f"stop that session, or hand it in as {argument}="))


def _start(master: str | None) -> SparkSession:
    """Start a session; or return the session that another thread has made meanwhile."""
    # PySpark takes these locks in the same order. A thread that makes a session waits, and starts no second Java.
    with _own_interrupts(), SparkSession.Builder._lock, SparkContext._lock:
        if (active := _active_session()) is not None:
            return active
        check_reachable(master)
        share_python_paths()
        remedy = "Spark needs Java 17 or later, on the PATH or under JAVA_HOME"
        try:
            if SparkContext._gateway is None:
                with _java_log() as (log, name):
                    remedy = f"see what it said in {name}; {remedy}"
                    SparkContext._ensure_initialized(gateway=launch_java(log, home_for(master, os.environ)))
            _STARTED.session = SparkSession.builder.config(conf=_configuration(master)).getOrCreate()
            quiet_accumulators(_STARTED.session.sparkContext)
        except Exception as error:
            if (problem := not_taken(master, str(error))) is not None:
                raise problem from error
            wrong = f"Spark does not start: {reason(error)}"
            expected = "a Spark on this machine, or the master of a cluster"
            raise SystemProblem(explain(wrong, expected, remedy)) from error
        return _STARTED.session


_DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_UNNAMED = ("pyspark-shell", "PySparkShell")
"""The names that spark-submit gives to a program without one."""


def _configuration(master: str | None) -> SparkConf:
    """The configuration of a new context: what spark-submit was told, or Spark's own files say, and our defaults where
    they say nothing. A `master` that is handed in is the user's word, too."""
    conf = SparkConf()  # Java runs by now, and knows what spark-submit was told
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    if conf.get("spark.app.name", _UNNAMED[0]) in _UNNAMED:
        conf.setAppName("fluvial")
    if UMASK in os.environ:
        conf.setIfMissing(f"spark.executorEnv.{UMASK}", os.environ[UMASK])
    return conf.setMaster(master) if master else conf.setIfMissing("spark.master", "local[*]")


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore this process's handler of Ctrl-C, which a new SparkContext replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


def share_python_paths() -> None:
    """Make child processes use this Python interpreter and find the user's modules."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = own_paths()
    paths = [*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    # A folder that hides modules of Python's is left out here. `unpack` adds it at the end of the worker's path.
    shared = dict.fromkeys(path for path in paths if path and not (path in own and hides_modules(path)))
    os.environ["PYTHONPATH"] = os.pathsep.join(shared)
    if hides_modules(str(Path.cwd())):
        os.environ["PYTHONSAFEPATH"] = "1"  # else children search the current folder first


@contextmanager
def _java_log() -> Iterator[tuple[int, Path]]:
    """A new file for the messages of Spark's Java process, which are many and of little use to the user. The process
    keeps the file open as long as it lives."""
    # mkstemp draws the name and makes the file: no other user can have made a file of that name.
    log, name = tempfile.mkstemp(prefix=f"fluvial-spark-{os.getpid()}-", suffix=".log")
    try:
        yield log, Path(name)
    finally:
        os.close(log)


def local_folders(session: SparkSession) -> list[Path]:
    """The folders on this machine where Spark and its workers write what is gone with it: shuffles, and what does not
    fit into memory."""
    chosen = os.environ.get("SPARK_LOCAL_DIRS") or session.sparkContext.getConf().get("spark.local.dir") or ""
    return [Path(folder) for folder in (*chosen.split(","), tempfile.gettempdir()) if folder]


STATE_OF_FRAMES = ("spark.sql.streaming.stateStore.encodingFormat", "unsaferow")
"""What holds where DataFrames of the user's are read: Spark's own operators in them know no other format."""

_ENGINE_SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    # A batch uploads what it has changed, in place of whole files of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_RECORDS),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Stateful operators ignore this setting. Unless it is false, Spark starts separate processes for them.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.redaction.options.regex": _SECRETS,
}

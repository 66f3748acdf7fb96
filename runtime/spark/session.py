"""The Spark session that a run uses: the user's, or one of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from ...planner.settings import Settings
from .clock_source import ClockDataSource
from .log_sink import LogSinkDataSource
from .log_source import LogDataSource

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def session_for(spark: Any, settings: Settings) -> Iterator[SparkSession]:
    """A session with our settings. One that is handed in gets its own settings back at the end, and stays up.

    A master's URL, or None for this machine, starts a session that is stopped at the end.
    """
    own = not isinstance(spark, SparkSession)
    session = _start(spark) if own else spark
    try:
        with _configured(session, _told(session, settings)):
            for source in (LogDataSource, LogSinkDataSource, ClockDataSource):
                session.dataSource.register(source)
            yield session
    finally:
        if own:
            session.stop()


def _start(master: str | None) -> SparkSession:
    # Workers start the interpreter of this variable, and look for the user's modules where this process does.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    paths = [path for path in sys.path if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([*paths, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    )
    builder = SparkSession.builder.appName("fluvial").master(master or "local[*]")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    for name, value in quiet.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _told(session: SparkSession, settings: Settings) -> dict[str, str]:
    tasks = settings.spark_shuffle_partitions or min(settings.spark_buckets, session.sparkContext.defaultParallelism)
    return {
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.encodingFormat": "avro",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
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

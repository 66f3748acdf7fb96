"""A process without Spark that runs pipelines on it: what the session of the other tests cannot show.

Each line that it prints is what one of the SCENES has seen.
"""

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engines.targets import write
from fluvial.dsl import FluvialError, Pipeline, UsageError
from fluvial.runtime import run
from fluvial.runtime.spark.query.session import session_for
from fluvial.runtime.systems import LogSystem


def what_is_no_session(folder: Path) -> object:  # noqa: ARG001
    """What is refused starts no Java."""
    refusals = []
    for given in (3, object()):
        try:
            with session_for(given):
                raise AssertionError(given)
        except UsageError as error:
            refusals.append(str(error))
    return [SparkContext._gateway is None, *("not one of Spark Connect" in text for text in refusals)]


def runs_that_overlap(folder: Path) -> object:  # noqa: ARG001
    """They share one Spark, which the last one stops; Ctrl-C stays with this process. What spark-submit was told is
    kept."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[7] --name theirs --conf spark.log.level=FATAL pyspark-shell"
    handler = signal.getsignal(signal.SIGINT)
    first, second = ExitStack(), ExitStack()
    one = first.enter_context(session_for("local[2]"))
    other = second.enter_context(session_for(None))
    name = "spark.sql.shuffle.partitions"
    one.conf.set(name, "3")
    other.conf.set(name, "5")
    tasks = [one.conf.get(name), other.conf.get(name)]
    told = one.sparkContext.getConf()
    kept = [told.get(f"spark.{key}") for key in ("app.name", "log.level", "ui.enabled", "master")]
    first.close()
    left = other.range(3).count()
    second.close()
    gateway: Any = SparkContext._gateway
    apart = os.getpgid(gateway.proc.pid) != os.getpgid(0)
    return [tasks, kept, left, other.sparkContext._jsc is None, signal.getsignal(signal.SIGINT) == handler, apart]


def a_session_that_is_stopped(folder: Path) -> object:
    """It is refused, and one of this process that is stopped is not found."""
    system = LogSystem(folder / "log", fsync=False)
    write(system, {"in": [[(None, b"a", 0, ())]]})
    theirs = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    theirs.sparkContext.stop()
    refused = ""
    try:
        run(copying("copy"), engine="spark", system=system, until="end", spark=theirs)
    except FluvialError as error:
        refused = str(error).partition("\n")[0]
    return [refused, run(copying("copy"), engine="spark", system=system, until="end").written]


def a_java_that_is_killed(folder: Path) -> object:
    """The next run starts another, which the one that has lost it does not stop."""
    system = LogSystem(folder / "log", fsync=False)
    lost = ExitStack()
    lost.enter_context(session_for(None))
    gateway: Any = SparkContext._gateway
    gateway.proc.kill()
    gateway.proc.wait()
    with session_for(None) as session:
        lost.close()
        left = session.range(3).count()
    same = SparkContext._gateway is gateway
    return [left, same, run(copying("another"), engine="spark", system=system, until="end").written]


def copying(name: str) -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


SCENES = (what_is_no_session, runs_that_overlap, a_session_that_is_stopped, a_java_that_is_killed)

if __name__ == "__main__":
    for scene in SCENES:
        print(json.dumps(scene(Path(sys.argv[1]))), flush=True)

"""An archive of the classes that Spark loads: with it Java need not read, check and link them at each start.

Java passes over an archive that another Java has made, or from other jars.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engines.spark_home import CLASSES, HOME
from engines.targets import run_on
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.runtime.systems import LogSystem
from kafka.broker_jars import SHORT_LIVED

NOW = 1_800_000_000_000
SECONDS_TO_WRITE = 600.0


def counting() -> Pipeline:
    """A pipeline with a shuffle and state."""
    pipeline = Pipeline("classes")
    words = pipeline.stream("words", value=str)
    keyed = words.partition_by(lambda word: word.lower(), id="by-word", key_type=str)
    counts = keyed.window(tumbling(timedelta(seconds=1)), count(), id="counts")
    counts.map(lambda pane: f"{pane.key} {pane.value}").send_to("counts")
    return pipeline


def make(archive: Path) -> None:
    """Let Spark run once. At its end Java writes down what it has loaded."""
    from pyspark import SparkContext  # noqa: PLC0415 - an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415

    made = archive.with_suffix(".new")
    os.environ |= {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable}
    os.environ["SPARK_SUBMIT_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    quiet: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    session = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    inputs = {"words": [[(None, word, NOW, ()) for word in (b"ada", b"Ada")]]}
    with TemporaryDirectory() as folder:
        run_on(LogSystem(Path(folder), fsync=False), counting(), inputs, engine="spark", spark=session)
    java: Any = SparkContext._gateway
    session.stop()
    java.proc.stdin.close()  # at which it ends by itself
    java.proc.wait(SECONDS_TO_WRITE)
    if made.exists():
        made.rename(archive)


if __name__ == "__main__":
    if HOME.exists() and not CLASSES.exists():
        make(CLASSES)

"""Visits, on Spark and Kafka; run as `python visits_on_spark.py NAME SERVERS DIRECTORY` it can be killed."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from fluvial.dsl import Pipeline, count, session
from fluvial.planner import Settings
from fluvial.runtime import Report, run
from fluvial.runtime.systems import KafkaSystem

GAP = timedelta(milliseconds=10)


def key_of(line: str) -> str:
    return line.split(maxsplit=1)[0]


def time_of(line: str) -> int:
    return int(line.split()[1])


def visits(name: str) -> Pipeline:
    """Sessions of lines like "ada 17"."""
    pipeline = Pipeline(name)
    lines = pipeline.stream(f"{name}.lines", value=str, timestamp=time_of)
    keyed = lines.partition_by(key_of, id="by-name", key_type=str, value=str)
    keyed.window(session(GAP), count(), id="sessions").send_to(f"{name}.out")
    return pipeline


def small(folder: Path, batch_records: int = 400) -> Settings:
    """Several batches, and little work in each."""
    return Settings(state_dir=str(folder), spark_batch_records=batch_records, spark_buckets=2)


def to_the_end(name: str, servers: str, folder: Path, spark: Any) -> Report:
    """Run visits in many batches."""
    system, settings = KafkaSystem(servers), small(folder, 20)
    return run(visits(name), engine="spark", system=system, settings=settings, until="end", spark=spark)


if __name__ == "__main__":
    to_the_end(sys.argv[1], sys.argv[2], Path(sys.argv[3]), "local[2]")

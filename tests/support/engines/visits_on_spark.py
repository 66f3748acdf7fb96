"""Visits, on Spark and Kafka; run as `python visits_on_spark.py NAME SERVERS DIRECTORY GUARANTEE` it can be killed.
With `reset` behind that it removes the checkpoint instead."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace

from fluvial.dsl import Pipeline, count, session
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import Report, reset, run
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


def small(folder: str | Path, batch_records: int = 400, guarantee: Guarantee = "at_least_once") -> Settings:
    """Several batches, and little work in each."""
    return Settings(state_dir=str(folder), spark_batch_records=batch_records, spark_buckets=2, guarantee=guarantee)


def to_the_end(
    name: str, servers: str, folder: str | Path, spark: Any, guarantee: Guarantee = "at_least_once"
) -> Report:
    """Run visits in many batches."""
    system, settings = KafkaSystem(servers), replace(small(folder, 20, guarantee), spark_message_ids=True)
    return run(visits(name), engine="spark", system=system, settings=settings, until="end", spark=spark)


if __name__ == "__main__":
    name, servers, folder, chosen, *rest = sys.argv[1:]
    (guarantee,) = (one for one in get_args(Guarantee) if one == chosen)
    if rest == ["reset"]:
        reset(visits(name), engine="spark", system=KafkaSystem(servers), settings=small(folder))
    else:
        to_the_end(name, servers, folder, "local[2]", guarantee)

"""Running counts on Spark and Kafka, with a number of key buckets; as a program it can be killed.

Run as `python split_on_spark.py NAME SERVERS DIRECTORY BUCKETS UNTIL`; 0 is as many buckets as the checkpoint has.
"""

import sys
from datetime import timedelta
from typing import Literal, cast

from fluvial.dsl import Pipeline, after_count, count, repeat, unbounded
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import KafkaSystem


def key_of(line: str) -> str:
    return line.split(maxsplit=1)[0]


def time_of(line: str) -> int:
    return int(line.split()[1])


def counted(name: str) -> Pipeline:
    """How often each word came, of lines like "ada 17", at each of them; and each line once."""
    pipeline = Pipeline(name)
    lines = pipeline.stream(f"{name}.lines", value=str, timestamp=time_of)
    keyed = lines.partition_by(key_of, id="by-word", key_type=str, value=str)
    counts = keyed.window(unbounded(), count(), id="counts", trigger=repeat(after_count(1)))
    counts.map(lambda pane: f"{pane.key} {pane.value}").send_to(f"{name}.out")
    keyed.deduplicate(within=timedelta(days=1), id="once").send_to(f"{name}.first")
    return pipeline


def run_on(name: str, servers: str, folder: str, buckets: int, until: Literal["caught-up", "end"]) -> None:
    """Run exactly once, to what there is or to the end of the input."""
    settings = Settings(
        state_dir=folder, spark_buckets=buckets or None, spark_batch_records=500_000, guarantee="exactly_once"
    )
    system = KafkaSystem(servers)
    run(counted(name), engine="spark", system=system, settings=settings, until=until, spark="local[2]")


if __name__ == "__main__":
    name, servers, folder, buckets, until = sys.argv[1:]
    run_on(name, servers, folder, int(buckets), cast(Literal["caught-up", "end"], until))

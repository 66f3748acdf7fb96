"""A run on Spark that goes on until it is stopped; it says so once it has read something."""

import sys

from fluvial.dsl import Pipeline
from fluvial.runtime import Progress, run


def copying() -> Pipeline:
    pipeline = Pipeline("copy")
    pipeline.stream("in", key=str, value=str).send_to("out")
    return pipeline


def say(progress: Progress) -> None:
    if progress.read:
        print("reading", flush=True)


if __name__ == "__main__":
    spark = None
    if sys.argv[2] == "theirs":
        from pyspark.sql import SparkSession  # which starts Java in the group of this process

        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    report = run(copying(), engine="spark", system=sys.argv[1], progress=say, spark=spark)
    print("wrote", report.written, flush=True)

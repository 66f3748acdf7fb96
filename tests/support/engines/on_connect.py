"""Clicks on Spark Connect; run as `python on_connect.py URL`: a process has a Spark of its own, or that of a server."""

import json
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fluvial.dsl import FluvialError, Pipeline, count, tumbling
from fluvial.planner import Settings
from fluvial.runtime import Progress, open_system, run, to_dataframe


def clicks() -> Pipeline:
    """The users who clicked, and the counts of each of them and minute."""
    pipeline = Pipeline("clicks")
    users = pipeline.stream("clicks", value=str)
    users.send_to("users")
    keyed = users.partition_by(str, id="by-user", key_type=str)
    keyed.window(tumbling(timedelta(minutes=1)), count(), id="counts").send_to("counts")
    return pipeline


def error_of(call: Callable[[], Any]) -> str:
    """The first line of the error that a call raises."""
    try:
        call()
    except FluvialError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


def main(url: str) -> None:
    """Run, and print what was seen."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark: Any = SparkSession.builder.remote(url).getOrCreate()
    frame = spark.range(300).selectExpr("concat('u', id % 3) AS value", "timestamp_millis(id * 1000) AS timestamp")
    settings, seen = Settings(spark_buckets=2), dict[str, list[Any]]()

    def note(name: str) -> Callable[[Any, int], None]:
        def write(found: Any, _: int) -> None:
            seen[name] = sorted(row.asDict(recursive=True)["value"] for row in found.collect())

        return write

    pipeline, inputs = clicks(), {"clicks": frame}
    outputs = {"users": note("users"), "counts": note("counts")}
    told = list[Progress]()
    report = run(pipeline, engine="spark", inputs=inputs, outputs=outputs, settings=settings, progress=told.append)
    to_dataframe(pipeline, "counts", inputs=inputs, settings=settings).createOrReplaceTempView("counts")
    ((summed,),) = spark.sql("SELECT sum(value) FROM counts").collect()
    rate = spark.readStream.format("rate").load().selectExpr("'u' AS value", "timestamp")
    system = open_system(f"log:{tempfile.mkdtemp()}")
    system.admin().create("clicks", 1)
    print(
        json.dumps(
            {
                "counts": seen["counts"],
                "users": len(seen["users"]),
                "read": report.read["clicks"],
                "summed": summed,
                "tasks": sorted({(progress.phase, str(progress.batch_tasks)) for progress in told}),
                "streams": to_dataframe(pipeline, "users", inputs={"clicks": rate}).isStreaming,
                "streaming": error_of(
                    lambda: run(pipeline, engine="spark", inputs={"clicks": rate}, outputs=outputs, settings=settings)
                ),
                "system": error_of(lambda: run(pipeline, engine="spark", system=system, spark=spark)),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])

"""Spark's daemon, which forks its Python workers, with all imported that they import: else each does so anew.

PySpark's own imports nothing beforehand, as a library may begin threads when it is imported, and those are not there in
a forked process.
"""

import os
import sys
from importlib import import_module

USED = (
    "pandas",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "fluvial.runtime.spark.connectors.end_of_input",
    "fluvial.runtime.spark.connectors.kafka_source",
    "fluvial.runtime.spark.connectors.kafka_transactions",
    "fluvial.runtime.spark.connectors.log_sink",
    "fluvial.runtime.spark.connectors.log_source",
    "fluvial.runtime.spark.worker.batch_level",
    "fluvial.runtime.spark.worker.keyed_level",
    "fluvial.runtime.spark.worker.typed_rows",
)
"""What workers that run tasks use besides their own module; those that answer the planner need less."""


WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables that keep numpy and Arrow from beginning a thread when they are imported."""


def import_all(worker: str) -> None:
    """Import what a worker uses. Raises RuntimeError if that has begun a thread."""
    os.environ |= WITHOUT_THREADS
    for name in (worker, *(USED if worker == "pyspark.worker" else ())):
        import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import has begun a thread: a forked worker would wait for it for ever")


if __name__ == "__main__":
    import_all(sys.argv[1])
    daemon = import_module("pyspark.daemon")
    daemon.manager()

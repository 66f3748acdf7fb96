"""Pipelines for a cluster of Spark's; run as `python cluster_pipelines.py ORDER`, a driver can be killed."""

import sys
from collections.abc import Callable, Mapping

from msgspec import Struct, json

from benchmarks.job import Job
from benchmarks.pipelines import w2
from engines.apart import apart
from examples import visitor_sessions
from fluvial.dsl import FluvialError, Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import KafkaSystem

POISON = 13


class Order(Struct, frozen=True, kw_only=True):
    """What to run, and where: streams have names that begin with `prefix`."""

    pipeline: str
    prefix: str
    servers: str
    master: str
    state_dir: str
    batch_records: int


def sessions() -> Pipeline:
    """Visitor sessions of an access log."""
    return visitor_sessions.pipeline


def totals() -> Pipeline:
    """W2 of the benchmarks: count and sum per user and minute."""
    return w2(Job("W2", "totals", "", ("events",), "minutes", "", ""))


def swallow(number: int) -> int:
    if number == POISON:
        raise ValueError("poison")
    return number


def swallowing() -> Pipeline:
    """One number fails, which ends a run."""
    pipeline = Pipeline("swallowing")
    pipeline.stream("numbers", value=int).map(swallow).send_to("swallowed")
    return pipeline


def sparing() -> Pipeline:
    """The same, but that it takes every number, as its user has mended it."""
    pipeline = Pipeline("swallowing")
    pipeline.stream("numbers", value=int).map(abs).send_to("swallowed")
    return pipeline


PIPELINES: Mapping[str, Callable[[], Pipeline]] = {
    function.__name__: function for function in (sessions, totals, swallowing, sparing)
}


def obey(order: Order) -> int:
    settings = Settings(
        state_dir=order.state_dir,
        guarantee="exactly_once",
        spark_batch_records=order.batch_records,
        spark_buckets=8,
    )
    pipeline, system = apart(PIPELINES[order.pipeline](), order.prefix), KafkaSystem(order.servers)
    try:
        run(pipeline, engine="spark", system=system, settings=settings, until="end", spark=order.master)
    except FluvialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(obey(json.decode(sys.argv[1], type=Order)))

"""A pipeline that is changed between two runs, on the driver and on Spark's kernel."""

from collections.abc import Mapping

from engines.spark_in_process import Query, queries
from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from fluvial.planner.planner import plan_on
from fluvial.runtime.systems.provisioning import make_streams
from fluvial.runtime.testing import PipelineDriver, StreamRecords
from fluvial.runtime.testing.decoded_outputs import Decoder


def restart_with(driver: PipelineDriver, pipeline: Pipeline, partitions: int = 1) -> None:
    """Crash, and go on with another pipeline; streams that it reads for the first time have so many partitions."""
    driver.crash()
    driver._sources = {op.stream: op for op in pipeline.operators if isinstance(op, ops.Source)}
    for stream in driver._sources:
        if driver._admin.partitions(stream) is None:
            driver._admin.create(stream, partitions)
    driver.plan = plan_on(pipeline, driver._admin.streams(), driver._settings)
    make_streams(driver.plan, driver._admin)
    driver._decoder = Decoder(driver.plan)
    driver.records = StreamRecords(driver._system, driver._decoder.check, driver._send)
    driver.restart()


def changed(query: Query, pipeline: Pipeline, resets: Mapping[str, int] | None = None) -> Query:
    """What goes on with a query's state, of another pipeline; `resets` says how often operators were reset."""
    (after,) = queries(plan_on(pipeline, {name: query.plan.stream(name).partitions for name in query.sources}), resets)
    after.state, after.written, after.counts = query.state, query.written, query.counts
    after.now, after.record, after.batches = query.now, query.record, query.batches
    after.restart()
    return after

"""Cases for Spark on a broker that all tests share. Its connector knows streams by their names there, so these, not the
system, are made unlike all others."""

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec import structs

from engines.targets import namespace, outputs_of, write
from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from kafka.broker import Broker
from oracle.interpreter import Inputs, Outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def apart(pipeline: Pipeline, prefix: str) -> Pipeline:
    """The same pipeline, on streams whose names begin with `prefix`, those of its own too."""
    made = Pipeline(pipeline.name, on_error=pipeline.on_error)
    made.name, made.origin = prefix + pipeline.name, pipeline.origin
    for operator in pipeline.operators:
        names = {field: getattr(operator, field, None) for field in ("stream", "late_to")}
        own: dict[str, Any] = {field: prefix + name for field, name in names.items() if name is not None}
        made._graph.put(replace(operator, **own))
    return made


def on_spark_kafka(
    broker: Broker, spark: "SparkSession", pipeline: Pipeline, inputs: Inputs, settings: Settings | None = None
) -> Outputs:
    """Write the inputs, run Spark to their end, and read the outputs, by the names that the pipeline gives them."""
    space = namespace(broker)
    write(space, inputs)
    with TemporaryDirectory() as folder:
        configured = structs.replace(settings or Settings(), state_dir=folder)
        made = apart(pipeline, space.prefix)
        run(made, engine="spark", system=space.system, until="end", settings=configured, spark=spark)
    return outputs_of(space, {*inputs}, pipeline.name)

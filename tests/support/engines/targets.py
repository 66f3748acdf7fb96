"""Who runs a case: the oracle, the driver and the engines, each as a function from a case to what was written."""

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec
from uuid import uuid4

from hypothesis import HealthCheck
from msgspec.structs import replace

from engines.namespaces import Namespace
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.dsl.serde import encode_key, untyped_serde
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.launch import EngineName
from fluvial.runtime.systems import KafkaSystem, LogSystem, MemorySystem, System
from fluvial.runtime.systems.contract import Admin
from fluvial.runtime.systems.reads import read_to_ends
from fluvial.runtime.testing import PipelineDriver
from generators.building import build
from generators.cases import Case, Pieces, expected
from generators.remote_notes import noted
from kafka.broker import Broker
from oracle.interpreter import Inputs, OutputMessage, Outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
MOST = 1 << 30
PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
"""Random pipelines are large and take time to draw."""


def on_oracle(case: Case) -> Outputs:
    return expected(case)


def with_remote_rows(run: Callable[P, Outputs]) -> Callable[P, Outputs]:
    """The same, with what is written to remote tables meanwhile: table `t` as the stream `remote:t`."""

    @wraps(run)
    def noting(*args: P.args, **named: P.kwargs) -> Outputs:
        with noted() as written:
            outputs = run(*args, **named)
        return outputs | {f"remote:{table}": [_row(*row) for row in rows] for table, rows in written.items()}

    return noting


def _row(key: Any, row: Any) -> OutputMessage:
    return OutputMessage(encode_key(key), None if row is None else untyped_serde().encode(row), 0, ())


@with_remote_rows
def on_driver(case: Case) -> Outputs:
    """The driver, fed one batch a partition."""
    with PipelineDriver(build(case.description), partitions=case.partitions, commits="timed") as driver:
        feed_whole(driver, case.inputs)
        driver.end()
        return driver_outputs(driver)


@with_remote_rows
def on_driver_in_pieces(case: Case, pieces: Pieces) -> Outputs:
    """The driver, fed piece by piece."""
    with PipelineDriver(build(case.description), partitions=case.partitions, commits="timed") as driver:
        for (stream, partition), records in pieces:
            driver.records.send(stream, records, partition=partition)
        driver.end()
        return driver_outputs(driver)


@with_remote_rows
def on_driver_with_restarts(case: Case, pieces: Pieces) -> Outputs:
    """The driver, which commits after each piece, and after every second one begins anew from what it kept; in memory
    there is room for little."""
    settings = Settings(guarantee="exactly_once", cached_entries=2)
    partitions = case.partitions
    with PipelineDriver(build(case.description), partitions=partitions, settings=settings, commits="timed") as driver:
        for number, ((stream, partition), records) in enumerate(pieces):
            driver.records.send(stream, records, partition=partition)
            driver.commit()
            if number % 2:
                driver.restart()
        driver.end()
        return driver_outputs(driver)


def feed_whole(driver: PipelineDriver, inputs: Inputs) -> None:
    """Send all of each partition as one batch."""
    for stream, partitions in inputs.items():
        for number, records in enumerate(partitions):
            driver.records.send(stream, records, partition=number)


def driver_outputs(driver: PipelineDriver) -> Outputs:
    """What a driver's pipeline wrote to its streams."""
    names = [stream.name for stream in driver.plan.streams if stream.kind not in ("source", "intermediate")]
    return {name: [OutputMessage(*record) for record in driver.records.read(name)] for name in names}


@with_remote_rows
def on_local_memory(case: Case) -> Outputs:
    return run_on(MemorySystem(), build(case.description), case.inputs)


@with_remote_rows
def on_local_log(case: Case, batches: int = MOST) -> Outputs:
    """The local engine on a log that was written so many records at a time."""
    with TemporaryDirectory() as folder:
        return run_on(LogSystem(Path(folder), fsync=False), build(case.description), case.inputs, batches=batches)


@with_remote_rows
def on_local_kafka(case: Case, broker: Broker) -> Outputs:
    return on_kafka(broker, build(case.description), case.inputs)


def on_kafka(broker: Broker, pipeline: Pipeline, inputs: Inputs, settings: Settings | None = None) -> Outputs:
    """Run the local engine in a part of the broker of its own."""
    with TemporaryDirectory() as folder:
        configured = replace(settings or Settings(), state_dir=folder)
        return run_on(namespace(broker), pipeline, inputs, configured)


def namespace(broker: Broker) -> Namespace:
    """A part of a broker that nobody has used."""
    return Namespace(KafkaSystem(broker.address), f"{uuid4().hex[:8]}.")


def on_spark(case: Case, spark: "SparkSession") -> Outputs:
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        return run_on(system, build(case.description), case.inputs, engine="spark", spark=spark)


def run_on(
    system: System,
    pipeline: Pipeline,
    inputs: Inputs,
    settings: Settings | None = None,
    batches: int = MOST,
    engine: EngineName = "local",
    spark: Any = None,
) -> Outputs:
    """Write the inputs, `batches` records at a time, run an engine to their end, and read the outputs."""
    write(system, inputs, batches)
    run(pipeline, engine=engine, system=system, until="end", settings=settings, spark=spark)
    return outputs_of(system, {*inputs}, pipeline.name)


def write(system: System, inputs: Inputs, batches: int = MOST) -> None:
    """Make the input streams and fill them."""
    for stream, partitions in inputs.items():
        system.admin().create(stream, len(partitions))
        for number, records in enumerate(partitions):
            rest = iter(records)
            while part := list(islice(rest, batches)):
                append(system, stream, number, part)


def append(system: System, stream: str, partition: int, records: Sequence[Record]) -> None:
    """Add records to a partition of a stream that exists."""
    writing = system.producer().begin()
    writing.append(stream, partition, records)
    writing.commit()


def outputs_of(system: System, inputs: set[str], pipeline: str) -> Outputs:
    """What is in the streams that a pipeline writes."""
    names = output_streams(system.admin(), inputs, pipeline)
    return {name: [OutputMessage(*record) for record in contents(system, name)] for name in names}


def output_streams(admin: Admin, inputs: set[str], pipeline: str) -> list[str]:
    """Every stream but the inputs and the intermediate ones."""
    letters = f"{pipeline}-dead-letters"
    names = (name for name in admin.streams() if name not in inputs)
    return [name for name in names if name == letters or not name.startswith(f"{pipeline}-")]


def contents(system: System, stream: str) -> list[Record]:
    """All that is in a stream."""
    admin = system.admin()
    starts, ends = admin.starts(stream), admin.ends(stream)
    return [record for batch in read_to_ends(system, stream, starts, ends) for record in batch.records]

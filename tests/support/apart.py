"""Cases on a cluster that all tests share: their streams have names of their own there."""

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from msgspec import structs

from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import System
from oracle import Inputs, OutputMessage, Outputs
from targets import write


def apart(pipeline: Pipeline, prefix: str) -> Pipeline:
    """The same pipeline, on streams whose names begin with `prefix`, those of its own too."""
    made = Pipeline(prefix + pipeline.name, on_error=pipeline.on_error)
    made.origin = pipeline.origin
    for operator in pipeline.operators:
        names = {field: getattr(operator, field, None) for field in ("stream", "late_to")}
        own: dict[str, Any] = {field: prefix + name for field, name in names.items() if name is not None}
        made._operators[operator.id] = replace(operator, **own)
    return made


def run_apart(
    system: System, pipeline: Pipeline, inputs: Inputs, settings: Settings | None = None, **options: Any
) -> Outputs:
    """Write the inputs, run an engine to their end, and read the outputs, by the names that the pipeline gives them."""
    prefix = f"{uuid4().hex[:8]}-"
    write(system, {prefix + stream: partitions for stream, partitions in inputs.items()})
    with TemporaryDirectory() as folder:
        beside = structs.replace(settings or Settings(), state_dir=folder)
        run(apart(pipeline, prefix), system=system, until="end", settings=beside, **options)
    names = [name for name in system.admin().streams() if name.startswith(prefix)]
    own = prefix + pipeline.name
    return {
        name.removeprefix(prefix): [OutputMessage(*record) for record in read_all(system, name)]
        for name in names
        if name.removeprefix(prefix) not in inputs and (name == f"{own}-dead-letters" or not name.startswith(f"{own}-"))
    }


def read_all(system: System, stream: str) -> list[Record]:
    """All that is in a stream."""
    return [record for part in by_partition(system, stream) for record in part]


def by_partition(system: System, stream: str) -> list[list[Record]]:
    """All that is in a stream, though some of its offsets may hold nothing that readers see."""
    ends = system.admin().ends(stream)
    found: list[list[Record]] = [[] for _ in ends]
    rest = {number for number, end in enumerate(ends) if end}
    consumer = system.consumer()
    consumer.assign({(stream, number): 0 for number in range(len(ends))})
    while rest:
        for batch in consumer.poll(1.0):
            found[batch.partition] += batch.records
            if batch.next_offset >= ends[batch.partition]:
                rest.discard(batch.partition)
    consumer.close()
    return found

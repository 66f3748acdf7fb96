"""Each workload, written in Fluvial's language, writes what the oracle expects."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from benchmarks import pipelines
from benchmarks.job import Job, Notes
from benchmarks.oracle import expected, judge
from benchmarks.sources import PARTITIONS, Source
from benchmarks.workloads import WORKLOADS, Workload
from fluvial.dsl.message import Record
from fluvial.runtime import open_system, run
from fluvial.runtime.systems.contract import System
from fluvial.runtime.systems.partitioner import partition_for
from fluvial.runtime.systems.reads import read_to_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 4_000


@pytest.fixture
def job(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    inputs = tuple(source.name for source in WORKLOADS[name].sources)
    job = Job("", "job", "", inputs, "out", str(tmp_path), str(tmp_path / "notes"))
    monkeypatch.setattr(pipelines, "waiting", True)  # as in a process that has just begun
    for variable, value in job.environment().items():
        monkeypatch.setenv(variable, value)
    return job


def filled(system: System, workload: Workload, streams: tuple[str, ...]) -> System:
    for source, stream in zip(workload.sources, streams, strict=True):
        fill(system, source, workload.count(MESSAGES), stream)
    return system


def fill(system: System, source: Source[Any], count: int, stream: str) -> None:
    parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for message, partition in source.with_markers(count):
        key = source.key(message).encode()
        chosen = partition_for(key, PARTITIONS) if partition is None else partition
        parts[chosen].append((key, msgspec.json.encode(message), message.at, ()))
    system.admin().create(stream, PARTITIONS)
    producer = system.producer()
    writing = producer.begin()
    for number, records in enumerate(parts):
        writing.append(stream, number, records)
    writing.commit()
    producer.close()


def values(system: System, stream: str) -> list[bytes]:
    ends = system.admin().ends(stream)
    batches = read_to_ends(system, stream, [0] * len(ends), ends)
    return [record[1] or b"" for batch in batches for record in batch.records]


def assert_is_right(name: str, values: list[bytes]) -> None:
    verdict = judge(name, expected(name, *WORKLOADS[name].inputs(MESSAGES)), values)
    assert verdict.correct, verdict


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_local_engine_writes_what_the_oracle_expects(name: str, job: Job) -> None:
    system = filled(open_system("memory:"), WORKLOADS[name], job.inputs)

    run(pipelines.PIPELINES[name](job), system=system, until="end")

    assert_is_right(name, values(system, job.output))
    assert Notes.of(job).first is not None


EACH_TIME = "W6"
"""What runs on Spark each time; `test_the_local_engine_writes_what_the_oracle_expects` takes the other pipelines, and
`tests/conformance` their operators on Spark."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [EACH_TIME, *(pytest.param(name, marks=pytest.mark.long) for name in WORKLOADS if name != EACH_TIME)]
)
def test_spark_writes_what_the_oracle_expects(name: str, job: Job, spark: "SparkSession") -> None:
    system = filled(open_system(f"log:{job.folder}/log"), WORKLOADS[name], job.inputs)

    run(pipelines.PIPELINES[name](job), engine="spark", system=system, until="end", spark=spark)

    assert_is_right(name, values(system, job.output))

"""Each workload, written in Fluvial's language, writes what the oracle expects."""

from pathlib import Path

import msgspec
import pytest

from benchmarks import pipelines
from benchmarks.events import PARTITIONS, events, with_markers
from benchmarks.job import Job, Notes
from benchmarks.oracle import expected, judge
from benchmarks.workloads import WORKLOADS
from fluvial.dsl.message import Record
from fluvial.runtime import open_system, run
from fluvial.runtime.commands.reading import read_to_ends
from fluvial.runtime.systems.contract import System
from fluvial.runtime.systems.partitioner import partition_for

EVENTS = 4_000


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job("", "job", "", "events", "out", str(tmp_path), str(tmp_path / "notes"))
    monkeypatch.setattr(pipelines, "waiting", True)  # as in a process that has just begun
    for name, value in job.environment().items():
        monkeypatch.setenv(name, value)
    return job


def filled(stream: str) -> System:
    system = open_system("memory:")
    parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for event, partition in with_markers(EVENTS):
        key = event.user.encode()
        chosen = partition_for(key, PARTITIONS) if partition is None else partition
        parts[chosen].append((key, msgspec.json.encode(event), event.at, ()))
    system.admin().create(stream, PARTITIONS)
    writing = system.producer().begin()
    for number, records in enumerate(parts):
        writing.append(stream, number, records)
    writing.commit()
    return system


def values(system: System, stream: str) -> list[bytes]:
    ends = system.admin().ends(stream)
    batches = read_to_ends(system, stream, [0] * len(ends), ends)
    return [record[1] or b"" for batch in batches for record in batch.records]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_local_engine_writes_what_the_oracle_expects(name: str, job: Job) -> None:
    system = filled(job.input)

    run(pipelines.PIPELINES[name](job), system=system, until="end")

    verdict = judge(name, expected(name, events(EVENTS)), values(system, job.output))
    assert verdict.correct, verdict
    assert Notes.of(job).first is not None

"""Who is measured, and how its process learns what to do."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.contenders import CONTENDERS, PEERS, chosen, environment, lacking
from benchmarks.job import FIRST, PROGRESS, Job, Notes
from benchmarks.workloads import WORKLOADS

PEER_NAMES = [name for name, contender in CONTENDERS.items() if contender.group == "peer"]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("W1", "job", "127.0.0.1:9092", ("events",), "out", str(tmp_path), str(tmp_path / "notes"))


def test_the_loop_is_always_measured_and_first() -> None:
    assert [contender.name for contender in chosen(["quix"], ["own"])] == ["raw", "quix"]
    assert {contender.group for contender in chosen(None, ["own"])} == {"own"}
    assert len(chosen(None, ["own", "peer"])) == len(CONTENDERS)


def test_what_is_missing_for_a_contender_is_reported() -> None:
    assert "bench-peers" in (lacking(replace(CONTENDERS["quix"], name="nobody")) or "")
    assert lacking(CONTENDERS["raw"]) is None


@pytest.mark.parametrize("name", PEER_NAMES)
def test_a_peer_has_a_program_and_its_requirements(name: str) -> None:
    program = (PEERS / f"on_{name}.py").read_text(encoding="utf-8")
    compile(program, name, "exec")
    assert all(f'"{workload}":' in program for workload in WORKLOADS.keys() - CONTENDERS[name].cannot.keys())
    assert CONTENDERS[name].package in (PEERS / f"{name}.txt").read_text(encoding="utf-8")


def test_a_process_finds_its_job_around_it(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(job).items():
        monkeypatch.setenv(name, value)
    assert Job.given() == job


def test_a_run_that_does_not_end_is_no_run_to_the_end(job: Job) -> None:
    command = CONTENDERS["local"].command
    words = [list(command(one)) for one in (job, replace(job, endless=True))]
    assert [given[given.index("--until") + 1] for given in words] == [
        "end",
        "stopped",
    ]


def test_of_several_processes_the_first_message_and_the_highest_count_are_noted(job: Job) -> None:
    assert Notes.of(job) == Notes(None, 0)
    for what, number in ((FIRST, 5.5), (PROGRESS, 10), (FIRST, 4.5), (PROGRESS, 7)):
        job.note(what, number)
    assert Notes.of(job) == Notes(4.5, 10)

"""A local run that is killed at any moment, and then run to its end, has lost nothing."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem
from generators import slow_pipelines
from generators.slow_pipelines import PIPELINES, WORDS, start
from oracle.interpreter import OutputMessage, run_oracle
from waiting import wait_until

PROGRAM = Path(slow_pipelines.__file__)
INPUT: list[list[Record]] = [
    [(None, f"{'abcde'[number % 5]}{number}".encode(), number // 40 * 10 + number % 3, ()) for number in part]
    for part in (range(0, WORDS, 2), range(1, WORDS, 2))
]
KILLS = 5


def begin(name: str, folder: Path, guarantee: str, until: str = "end") -> "subprocess.Popen[str]":
    """Start a run, and wait until its program has loaded."""
    command = [sys.executable, str(PROGRAM), name, str(folder), guarantee, until]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def finish(process: "subprocess.Popen[str]") -> int:
    with process:
        return process.wait(timeout=60)


def wait_for_a_commit(log: LogSystem, pipeline: str) -> None:
    wait_until(lambda: log.admin().checkpoints(pipeline), "there is a commit")


def written(folder: Path) -> Counter[OutputMessage]:
    return Counter(OutputMessage(*record) for record in contents(LogSystem(folder, fsync=False), "out"))


def expected(name: str) -> Counter[OutputMessage]:
    return Counter(run_oracle(PIPELINES[name](), {"words": INPUT})["out"])


# A log keeps the same under both; what readers may see is less under exactly_once.
BY_GUARANTEE = pytest.mark.parametrize(
    "guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"]
)


@pytest.mark.slow
@BY_GUARANTEE
@pytest.mark.parametrize("name", PIPELINES)
def test_nothing_is_lost_by_a_kill(name: str, guarantee: str, tmp_path: Path) -> None:
    write(LogSystem(tmp_path, fsync=False), {"words": INPUT})
    delays = random.Random(name + guarantee)
    for _ in range(KILLS):
        process = begin(name, tmp_path, guarantee)
        time.sleep(delays.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        finish(process)
    for _ in range(2):  # the second has nothing to do but to let go of what the first has read
        assert finish(begin(name, tmp_path, guarantee)) == 0
    missing, repeated = expected(name) - written(tmp_path), written(tmp_path) - expected(name)
    assert not missing
    assert name != "sessions" or all(LogSystem(tmp_path).admin().starts("sessions-by"))
    assert guarantee == "at_least_once" or not repeated


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_a_clean_stop_commits_and_a_later_run_goes_on(name: str, tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    write(log, {"words": INPUT})
    process = begin(name, tmp_path, "exactly_once", "stopped")
    wait_for_a_commit(log, name)
    process.send_signal(signal.SIGTERM)
    assert finish(process) == 0
    assert finish(begin(name, tmp_path, "exactly_once")) == 0
    assert written(tmp_path) == expected(name)


@pytest.mark.slow
@BY_GUARANTEE
def test_a_second_run_is_refused_until_the_first_is_dead(guarantee: str, tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    write(log, {"words": INPUT})
    process = begin("lookups", tmp_path, guarantee, "stopped")
    try:
        wait_for_a_commit(log, "lookups")
        error = error_of(lambda: start("lookups", str(tmp_path), guarantee), SystemProblem)
    finally:
        process.send_signal(signal.SIGKILL)
        finish(process)
    wrong = f"'lookups' (container 0) is running on log:{tmp_path} already: process {process.pid} on "
    assert_explains(error, wrong, None, "one run of a pipeline at a time", "stop the other run")
    start("lookups", str(tmp_path), guarantee)

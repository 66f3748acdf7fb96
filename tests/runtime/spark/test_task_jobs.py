"""Jobs of one task: what Spark runs, what it says of a task that it could not run, and what is refused."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the jobs are Spark's")

from pyspark.errors import PythonException

from explained import assert_explains, error_of
from fluvial.dsl import FluvialError, SystemProblem, UnsupportedError, UsageError
from fluvial.runtime.spark.task_jobs import (
    IDLENESS,
    SPECULATION,
    TaskJobs,
    Work,
    _port,
    _refuse_shared_threads,
    _refuse_switches,
    environment_with,
    task_jobs,
)
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Results = Queue[FluvialError | str]


def worker() -> Work:
    """A function that travels to workers with its code: it does what its order says."""

    def work(order: bytes, env: Mapping[str, str]) -> str:
        match order.decode().split():
            case ["fail"]:
                raise ValueError("no such thing")
            case ["wait", pipe]:
                with open(pipe, "w"):  # until the test reads it
                    pass
                with open(pipe):  # until it writes there
                    pass
            case _:
                pass
        return f"{order.decode()} {'PYTHONPATH' in env}"

    return work


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def jobs(spark: "SparkSession") -> Iterator[TaskJobs]:
    with task_jobs(spark, "hosts", worker()) as (jobs, address):
        assert address == ("127.0.0.1", 0, "127.0.0.1")
        yield jobs


@pytest.mark.spark
@pytest.mark.slow
def test_a_task_runs_its_order_and_what_it_returns_is_reported(jobs: TaskJobs, pipe: Path) -> None:
    results: Results = Queue()
    jobs.submit("one", "p: one", f"wait {pipe}".encode(), results.put)
    pipe.read_text()  # the first one runs
    jobs.submit("two", "p: two", b"go", results.put)  # beside it
    assert results.get(timeout=60) == "go True"
    # Spark counts with a little delay.
    counted = (["one"], "Spark has room for 2 tasks at a time, and runs 1")
    wait_until(lambda: jobs.load(["one", "two", "none"]) == counted, "one task is counted")
    pipe.write_text("")
    assert results.get(timeout=60) == f"wait {pipe} True"


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_is_cancelled_and_a_task_that_fails_are_reported(jobs: TaskJobs, pipe: Path) -> None:
    results: Results = Queue()
    jobs.submit("three", "p: three", f"wait {pipe}".encode(), results.put)
    pipe.read_text()  # it runs
    jobs.cancel("three")
    assert "cancelled" in str(results.get(timeout=60))
    jobs.cancel("four")
    jobs.submit("four", "p: four", b"go", results.put)  # which was called off before Spark had it
    assert "cancelled" in str(results.get(timeout=60))
    jobs.submit("five", "p: five", b"fail", results.put)
    error = results.get(timeout=60)
    assert isinstance(error, SystemProblem)
    assert "ValueError: no such thing" in str(error)


class Context:
    """A context that was stopped, or whose Java process has ended."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers

    @property
    def _jsc(self) -> Any:
        if not self._answers:
            raise ConnectionRefusedError(111, "refused")
        return SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))


@pytest.mark.parametrize("answers", [True, False])
def test_a_spark_that_has_ended_takes_no_job(answers: bool) -> None:
    context: Any = Context(answers=answers)
    jobs = TaskJobs(context, worker())
    results: Results = Queue()
    jobs.submit("one", "p: one", b"go", results.put)
    error = results.get(timeout=60)
    assert isinstance(error, SystemProblem)
    assert_explains(error, "Spark has ended", None, "a session that lives as long as the run", "start the run again")
    assert answers or jobs.load(["one"]) == ((), "Spark does not say how many it has")
    assert isinstance(jobs._problem(ValueError("any")), SystemProblem)


def test_a_java_that_stands_still_does_not_hold_up_who_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluvial.runtime.spark.task_jobs._ASK_SECONDS", 0.05)
    monkeypatch.setattr("fluvial.runtime.spark.task_jobs._JOIN_SECONDS", 0.05)
    answered = Event()

    def scala() -> Any:
        answered.wait(60)
        return SimpleNamespace(isStopped=lambda: True, cancelJobGroupAndFutureJobs=cancelled.put)

    results: Results = Queue()
    cancelled: Queue[str] = Queue()
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=scala), setJobGroup=lambda *_, **__: answered.wait(60))
    jobs = TaskJobs(context, worker())
    jobs.submit("one", "p: one", b"go", results.put)
    jobs.submit("two", "p: two", b"go", results.put)
    jobs.cancel("one")
    assert jobs.load(["one"]) == ((), "Spark does not say how many it has")
    jobs.join()
    assert results.empty()
    assert cancelled.empty()
    answered.set()
    assert [type(results.get(timeout=60)) for _ in range(2)] == [SystemProblem] * 2
    assert cancelled.get(timeout=60) == "one"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("ModuleNotFoundError: No module named 'fluvial'", "a Python that has no Fluvial"),
        ("No module named 'fluvial.runtime.spark.task_jobs'", "another version of Fluvial"),
        ("Can't get attribute 'run_order' on <module 'fluvial.runtime'", "another version of Fluvial"),
        ("[PYTHON_VERSION_MISMATCH] the worker has 3.8", "cannot run a task: [PYTHON_VERSION_MISMATCH]"),
    ],
)
def test_what_another_worker_would_not_do_better_is_an_error(message: str, wrong: str) -> None:
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
    problem = TaskJobs(context, worker())._problem(PythonException(message))
    assert isinstance(problem, SystemProblem)
    assert wrong in str(problem).splitlines()[0]
    assert TaskJobs(context, worker())._problem(RuntimeError("ExecutorLostFailure\nmore")) == "ExecutorLostFailure"


@pytest.mark.parametrize(("switch", "bound"), [SPECULATION, IDLENESS])
def test_settings_by_which_spark_ends_a_long_task_are_refused(switch: str, bound: str) -> None:
    # Neither does any harm alone: a job of one task has no second one without a threshold.
    for harmless in ({switch: "true"}, {bound: "60"}, {switch: "false", bound: "60"}, {switch: "true", bound: "0"}):
        _refuse_switches(harmless.get)
    for on in ("true", "True"):  # both mean the same to Spark
        error = error_of(partial(_refuse_switches, {switch: on, bound: "60"}.get), UnsupportedError)
        assert_explains(error, f"{switch}=true with {bound}", None, "one task for each container", f"leave out {bound}")


def test_threads_that_share_those_of_java_are_refused() -> None:
    context: Any = SimpleNamespace(_gateway=object())
    error = error_of(partial(_refuse_shared_threads, context), UnsupportedError)
    assert_explains(error, "PYSPARK_PIN_THREAD=false", None, "threads of Java", "leave it out")


def test_the_port_is_a_number() -> None:
    assert [_port("0"), _port("7100")] == [0, 7100]
    for wrong in ("x", "-1", "65536"):
        error = error_of(partial(_port, wrong), UsageError)
        assert_explains(error, f"spark.fluvial.port={wrong}", None, "the number of a port")


def test_a_container_finds_what_spark_has_brought_to_its_worker() -> None:
    path = ["/tmp/work/userFiles-1/deps.zip", "", "/usr/lib/python3", "/tmp/work/userFiles-1"]
    found = environment_with({"PYTHONPATH": "/spark", "HOME": "/h"}, path, "/tmp/work/userFiles-1")
    brought = os.pathsep.join(["/tmp/work/userFiles-1/deps.zip", "/tmp/work/userFiles-1", "/spark"])
    assert found == {"PYTHONPATH": brought, "HOME": "/h"}
    assert environment_with({}, [], "/tmp")["PYTHONPATH"] == ""

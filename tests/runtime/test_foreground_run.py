"""`run`: which containers it runs, in this process or on a cluster, and which arguments do not go together."""

from pathlib import Path
from typing import Any

import pytest

from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import MissingExtraError, Pipeline, PlanError, SystemProblem, UnsupportedError, UsageError
from fluvial.runtime import run as typed_run
from fluvial.runtime import start as typed_start
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.systems import LogSystem, MemorySystem

run: Any = typed_run  # wrong arguments are what is tested
start: Any = typed_start
NOWHERE = "spark://127.0.0.1:1"
"""The master of a cluster where nothing listens."""


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


def filled() -> MemorySystem:
    system = MemorySystem()
    write(system, {"in": [[(None, b"a", 0, ())]]})
    return system


@pytest.mark.parametrize("containers", [None, 1])
def test_a_run_alone_is_the_only_container(containers: int | None) -> None:
    assert run(copying(), system=filled(), until="end", containers=containers).written == {"out": 1}


@pytest.mark.parametrize(
    ("options", "wrong", "expected"),
    [
        ({"container_id": 2, "containers": 2}, "container_id=2, containers=2", "counted from 0"),
        ({"containers": 2}, "container_id=None, containers=2", "counted from 0"),
        ({"hosts": NOWHERE}, "hosts= without containers=", "the number of containers"),
        ({"hosts": NOWHERE, "containers": 0}, "containers=0", "1 or more"),
        ({"hosts": NOWHERE, "containers": True}, "containers=True", "1 or more"),
        ({"hosts": NOWHERE, "containers": 2, "container_id": 0}, "container_id=0 beside hosts=", "one of the two"),
        ({"hosts": NOWHERE, "containers": 2, "spark": "local[2]"}, "spark= beside hosts=", "one of the two"),
        ({"hosts": NOWHERE, "containers": 2, "outputs": {"out": print}}, "outputs= beside hosts=", "one of the two"),
        ({"hosts": NOWHERE, "containers": 2, "metrics": 3}, "metrics= beside hosts=", "a run in this process"),
        ({"hosts": NOWHERE, "containers": 2, "until": "never"}, "until='never'", '"caught-up" or "end"'),
    ],
)
def test_arguments_that_do_not_go_together_are_reported(options: dict[str, Any], wrong: str, expected: str) -> None:
    error = error_of(lambda: run(copying(), **{"system": filled(), "until": "end"} | options), UsageError)
    assert_explains(error, wrong, None, expected)


@pytest.mark.parametrize(
    ("options", "wrong", "expected"),
    [
        ({"engine": "spark", "system": "kafka://there:1"}, "with engine='spark'", "the engine 'local'"),
        ({"system": "memory:"}, "on memory:, which other processes cannot see", "a system that all of them see"),
    ],
)
def test_what_containers_on_a_cluster_cannot_use_is_reported(
    options: dict[str, Any], wrong: str, expected: str
) -> None:
    error = error_of(lambda: run(copying(), hosts=NOWHERE, containers=1, **options), UnsupportedError)
    assert_explains(error, wrong, None, expected)


@pytest.mark.skipif(missing("spark") is not None, reason="it needs Spark")
@pytest.mark.parametrize("begin", [run, start])
def test_hosts_that_are_none_are_reported_before_anything_starts(begin: Any, tmp_path: Path) -> None:
    def refused(hosts: object, kind: Any) -> Any:
        return error_of(lambda: begin(copying(), system=f"log:{tmp_path}/log", hosts=hosts, containers=1), kind)

    assert "the stream 'in' does not exist" in str(refused(NOWHERE, PlanError))
    write(LogSystem(tmp_path / "log", fsync=False), {"in": [[(None, b"a", 0, ())]]})
    assert_explains(refused(NOWHERE, SystemProblem), f"no master of Spark's answers at {NOWHERE}", None, "the URL")
    assert_explains(refused(3, UsageError), "hosts=3", None, "a SparkSession of this process, the URL of a master")


def test_without_java_hosts_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"in": [[(None, b"a", 0, ())]]})
    error = error_of(lambda: run(copying(), system=system, hosts=NOWHERE, containers=1), MissingExtraError)
    assert "cannot start here: " in str(error)


def test_containers_in_the_background_need_hosts() -> None:
    error = error_of(lambda: start(copying(), system=filled(), containers=2), UsageError)
    assert_explains(error, "containers=2 without hosts=", None, "a cluster that they run on", "pass hosts=")

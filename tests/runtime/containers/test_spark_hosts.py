"""Containers on Spark: what they are given to run, and a run of two on this machine, from Python."""

import re
import socket
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the hosts are Spark's")

from msgspec.structs import replace

from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem, UnsupportedError, count, tumbling
from fluvial.planner import Settings
from fluvial.runtime import Progress, run, start
from fluvial.runtime.containers.child_process import ChildConfig, ChildReport, run_child
from fluvial.runtime.containers.spark_hosts import fitted, listening
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.coordination.membership import begin_run
from fluvial.runtime.metrics.samples import lags_by_stream
from fluvial.runtime.spark.lowering.packaging import pack_pipeline, unpack_pipeline
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.open import Opening, opening
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = ShippedPlan("digest", b"data")
CONFIG = ChildConfig(
    target="p.py", system=Opening(url="log:here"), settings=Settings(state_dir="state"), until="end", container=0,
    containers=1, run="run",
)  # fmt: skip
PARTITIONS = 4
WORDS = [
    [(None, f"{'abc'[number % 3]}{number}".encode(), number, ()) for number in range(at, 200, 4)] for at in range(4)
]


def test_paths_of_a_log_are_whole_for_a_process_with_another_folder() -> None:
    config = fitted(SHIPPED, Path("/home/ada"), CONFIG)
    assert (config.target, config.shipped) == ("", SHIPPED)
    assert (config.system.url, config.settings.state_dir) == ("log:/home/ada/here", "/home/ada/state")
    whole = replace(CONFIG, system=Opening(url="log:/log"), settings=Settings())
    config = fitted(SHIPPED, Path("/home/ada"), whole)
    assert (config.system.url, config.settings.state_dir) == ("log:/log", None)


def test_on_kafka_state_lies_in_the_folder_of_the_worker() -> None:
    config = fitted(SHIPPED, Path("/home/ada"), replace(CONFIG, system=Opening(url="kafka://there:1")))
    assert (config.system.url, config.settings.state_dir) == ("kafka://there:1", "state")


def test_an_address_that_is_taken_is_reported() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        error = error_of(lambda: listening("127.0.0.1", port), SystemProblem)
    assert_explains(error, f"cannot listen for its containers at 127.0.0.1:{port}", None, "a port that is free", "port")
    if socket.has_ipv6:
        with listening("::1", 0) as other:
            assert other.family == socket.AF_INET6


def first_letter(word: str) -> str:
    return word[:1]


def counting() -> Pipeline:
    """Words by their first letter, with a function that is nowhere but in this test."""
    pipeline = Pipeline("letters")
    keyed = pipeline.stream("words", value=str).partition_by(first_letter, id="by", key_type=str, value=str)
    windows = keyed.window(tumbling(timedelta(milliseconds=100)), count(), id="count")
    windows.map(lambda pane: f"{pane.key} {pane.window.start} {pane.value}").send_to("counts", value=str)
    return pipeline


def test_a_pipeline_that_lacks_a_module_where_it_arrives_is_reported() -> None:
    assert unpack_pipeline(pack_pipeline(counting())).name == "letters"
    pickled = b"cnot_installed_here\npipeline\n."  # a reference to something of that module
    lacking = ShippedPlan("another", f"fluvial {version('fluvial')}\n".encode() + pickled)
    error = error_of(lambda: unpack_pipeline(lacking), UnsupportedError)
    assert_explains(error, "No module named 'not_installed_here'", None, "that it imports", "on every worker")


def test_a_child_runs_the_pipeline_that_came_along(log: LogSystem) -> None:
    reports: list[ChildReport] = []
    run_id = begin_run(checked_plan(counting(), log, Settings()), log, 1, "end")
    config = replace(CONFIG, system=opening(log), settings=Settings(), run=run_id)
    assert run_child(fitted(pack_pipeline(counting()), Path.cwd(), config), reports.append) == 0
    assert reports[-1].report is not None
    assert reports[-1].report.read["words"] == 200


def test_a_child_tells_its_supervisor_the_lags_of_its_tasks_and_no_other_sample(log: LogSystem) -> None:
    reports: list[ChildReport] = []
    settings = Settings(elasticity=2)
    run_id = begin_run(checked_plan(counting(), log, settings), log, 1, "end")
    config = replace(CONFIG, system=opening(log), settings=settings, run=run_id)
    assert run_child(fitted(pack_pipeline(counting()), Path.cwd(), config), reports.append) == 0
    told = [report.progress for report in reports if report.progress is not None]
    assert {sample.metric for progress in told for sample in progress.facts} == {"lag_messages"}
    assert [sum(lags_by_stream([progress]).values()) for progress in told] == [progress.lag for progress in told]
    assert len(told[0].facts) == 2 * len(WORDS) + 2 * PARTITIONS  # of sources, and between stages


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": WORDS})
    return system


@pytest.mark.spark
@pytest.mark.slow
def test_two_containers_on_a_session_write_what_one_process_does(
    spark: "SparkSession", log: LogSystem, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone = LogSystem(tmp_path / "alone", fsync=False)
    write(alone, {"words": WORDS})
    expected = run(counting(), system=alone, until="end")
    report = run(counting(), system=log, until="end", hosts=spark, containers=2)
    assert (report.read, report.written) == (expected.read, expected.written)
    assert sorted(contents(log, "counts")) == sorted(contents(alone, "counts"))
    # Of neither container; a busy machine may say that they wait for a core.
    assert not re.search(r"container \d", capfd.readouterr().err)


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_in_the_background_is_stopped_by_its_handle(spark: "SparkSession", log: LogSystem) -> None:
    shown: list[Progress] = []
    with start(counting(), system=log, hosts=spark, containers=1, progress=shown.append) as handle:
        wait_until(lambda: any(one.read for one in shown) or not handle.running, "it reads", 60)
        report = handle.stop()
    assert report is not None
    assert report.read["words"] == 200
    assert shown[-1].phase == "1 of 1 containers"


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_function_prints_on_a_worker_is_shown_here(
    spark: "SparkSession", log: LogSystem, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline = Pipeline("printing")
    pipeline.stream("words", value=str).filter(lambda word: print(word) or True).send_to("same")
    run(pipeline, system=log, until="end", hosts=spark, containers=1)
    assert sorted(capfd.readouterr().err.splitlines())[:2] == ["container 0: a0", "container 0: a102"]

"""Containers on a Spark cluster: they, their executors, workers and driver are killed, and nothing is lost."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.standalone_cluster import StandaloneCluster, below, command, parent
from fluvial.runtime.local.coordination.assignments import Presence
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from kafka.container_runs import Yard, alive, ended, kill, make_yard, process_of, title
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]
EXACTLY = ("--guarantee", "exactly_once")
SMALL = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}


@pytest.fixture
def yard(broker: Broker, tmp_path: Path) -> Yard:
    return make_yard(KafkaSystem(broker.address), tmp_path)


@pytest.fixture
def workers(cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    """The cluster with all its workers, before and after."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    cluster.mend()
    yield cluster
    cluster.mend()


def on(cluster: StandaloneCluster, containers: int = 2, **settings: str) -> list[str]:
    """The words of a run on a cluster; settings of Spark's are written with `_` for `.`."""
    given = SMALL | {name.replace("_", "."): value for name, value in settings.items()}
    conf = [word for name, value in given.items() for word in ("--spark-conf", f"{name}={value}")]
    return ["--containers", str(containers), "--on", cluster.master, *conf, *EXACTLY]


def running(yard: Yard, number: int, run: "subprocess.Popen[str]", but: str = "") -> Presence:
    """A container that runs, while the run does."""
    found = yard.container("sessions", number, run, but)
    assert found is not None, "the run was over before"
    return found


@contextmanager
def two(yard: Yard, cluster: StandaloneCluster) -> "Iterator[tuple[subprocess.Popen[str], Presence, Presence]]":
    """A run without end of two containers, on two workers."""
    with yard.running("sessions", *on(cluster, spark_executor_cores="1", spark_cores_max="2")) as run:
        yield run, running(yard, 0, run), running(yard, 1, run)


def all_done(yard: Yard) -> bool:
    return yard.written() == yard.expected("sessions")


def finish(yard: Yard, cluster: StandaloneCluster) -> None:
    """Run to the end on the cluster; what was written is then what the oracle writes."""
    with yard.running("sessions", *on(cluster), "--until", "end") as run:
        ended(run, 0)
    assert yard.written() == yard.expected("sessions")


def test_a_container_that_is_killed_is_submitted_again_alone(yard: Yard, workers: StandaloneCluster) -> None:
    with yard.running("sessions", *on(workers), "--until", "end") as run:
        other = running(yard, 1, run)
        before = ""
        for _ in range(2):
            found = running(yard, 0, run, before)
            assert title(found) == f"{yard.name}-s: container 0 of 2"
            kill(found)
            before = found.incarnation
        said = ended(run, 0)
    assert said.count("container 0 was killed by SIGKILL; it is started again") == 2
    assert "container 1 was killed" not in said
    assert "counts lack what containers did before they were started again" in said
    assert not alive(other)
    assert yard.written() == yard.expected("sessions")


@pytest.mark.parametrize("what", ["task", "executor", "worker", "machine"])
def test_a_container_comes_back_elsewhere_when_what_it_runs_in_is_lost(
    yard: Yard, workers: StandaloneCluster, what: str
) -> None:
    with two(yard, workers) as (run, lost, other):
        worker = workers.worker_of(process_of(lost))
        assert workers.worker_of(process_of(other)) != worker
        yard.wait_for_output()
        if what == "task":
            os.kill(parent(process_of(lost)), signal.SIGKILL)
        elif what == "executor":
            (executor,) = workers.executors(worker)
            os.kill(executor, signal.SIGKILL)
        elif what == "worker":
            workers.kill(worker)
        else:
            workers.lose(worker)
        back = running(yard, 0, run, lost.incarnation)
        assert process_of(back) != process_of(lost)
        wait_until(lambda: not alive(lost), "what was left of it has stopped")
        if what in ("worker", "machine"):
            assert workers.worker_of(process_of(back)) != worker
        assert running(yard, 1, run).incarnation == other.incarnation
        assert alive(other)
        run.send_signal(signal.SIGTERM)
        said = ended(run, 0)
    assert "container 0: the connection to it has ended" in said
    assert "container 1 was killed" not in said
    assert "container 1: the connection" not in said
    assert what in ("task", "executor") or "of state in" in said  # restored from changelogs
    finish(yard, workers)


def test_containers_stop_by_themselves_when_the_driver_is_killed(yard: Yard, workers: StandaloneCluster) -> None:
    with two(yard, workers) as (run, *found):
        yard.wait_for_output()
        run.kill()
        run.wait()
        wait_until(lambda: not any(map(alive, found)), "both containers have stopped")
    finish(yard, workers)


def test_all_stop_after_a_commit_and_go_on_in_another_number(yard: Yard, workers: StandaloneCluster) -> None:
    with two(yard, workers) as (run, *_):
        yard.wait_for_output()
        run.send_signal(signal.SIGTERM)
        said = ended(run, 0)
    assert "killed" not in said
    yard.run("sessions", "--containers", "3", *EXACTLY)  # here: the state comes from changelogs
    assert yard.written() == yard.expected("sessions")


def test_a_container_that_stood_still_while_another_took_its_place_does_no_harm(
    yard: Yard, workers: StandaloneCluster
) -> None:
    with two(yard, workers) as (run, zombie, _):
        yard.wait_for_output()
        task = parent(process_of(zombie))
        kill(zombie, signal.SIGSTOP)
        os.kill(task, signal.SIGKILL)
        running(yard, 0, run, zombie.incarnation)
        kill(zombie, signal.SIGCONT)
        wait_until(lambda: not alive(zombie), "it has stopped")
        run.send_signal(signal.SIGTERM)
        ended(run, 0)
    finish(yard, workers)


def test_a_spark_that_ends_ends_the_run_and_containers_stop_by_themselves(
    yard: Yard, workers: StandaloneCluster
) -> None:
    with two(yard, workers) as (run, *found):
        yard.wait_for_output()
        (java,) = [process for process in below(run.pid) if "deploy.SparkSubmit" in command(process)]
        os.kill(java, signal.SIGKILL)
        said = ended(run, 4)
        wait_until(lambda: not any(map(alive, found)), "both containers have stopped")
    assert "Spark has ended: its session was stopped, or its Java process does not answer" in said
    assert "Traceback" not in said
    finish(yard, workers)


def test_containers_without_a_core_are_reported_and_end_the_run(yard: Yard, workers: StandaloneCluster) -> None:
    (yard.folder / "fluvial.toml").write_text('[settings]\nstall_timeout = "90s"\n')
    with yard.running("sessions", *on(workers, 4, spark_cores_max="3")) as run:
        said = ended(run, 6)
    assert re.search(r"of 4 containers waits? for a core, \d+ s so far; the run ends after 90 s", said)
    assert re.search(r"1 of 4 containers waits for a core, for \d+ s; the run ends", said)
    assert "a core for each container; Spark has room for 3 tasks at a time, and runs 3" in said
    finish(yard, workers)


def test_dynamic_allocation_gives_each_container_an_executor(yard: Yard, workers: StandaloneCluster) -> None:
    dynamic = {"minExecutors": "0", "enabled": "true", "executorIdleTimeout": "5s"}
    settings = {f"spark_dynamicAllocation_{name}": value for name, value in dynamic.items()}
    with yard.running("sessions", *on(workers, 3, spark_executor_cores="1", **settings)) as run:
        assert len({parent(process_of(running(yard, number, run))) for number in range(3)}) == 3
        assert sum(len(workers.executors(worker)) for worker in workers.workers) == 3
        run.send_signal(signal.SIGTERM)
        ended(run, 0)
    finish(yard, workers)

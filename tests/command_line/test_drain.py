"""`drain`: a pipeline that runs ends with nothing left inside, and the next run goes on from there."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.systems import KafkaSystem, open_system
from kafka.broker import Broker
from kafka.container_runs import FLUVIAL, PATIENCE, Yard, ended, kill, make_yard
from waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def on_log(tmp_path: Path) -> Yard:
    return make_yard(open_system(f"log:{tmp_path}/log"), tmp_path)


@pytest.fixture(params=["log", pytest.param("kafka", marks=pytest.mark.kafka)])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    if request.param == "log":
        yield make_yard(open_system(f"log:{tmp_path}/log"), tmp_path)
    else:
        broker: Broker = request.getfixturevalue("broker")
        yield make_yard(KafkaSystem(broker.address), tmp_path)


def drain(yard: Yard, *words: str, code: int = 0) -> str:
    """What `fluvial drain` prints on stdout, or on stderr where it fails."""
    command = [FLUVIAL, "drain", f"{yard.target}:sessions", "--system", yard.system.url, *words]
    done = subprocess.run(command, cwd=yard.folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.long
@pytest.mark.parametrize("containers", [1, 2])
def test_a_run_that_is_drained_has_written_what_a_run_to_the_end_has(yard: Yard, containers: int) -> None:
    words = ("--guarantee", "exactly_once", *(() if containers == 1 else ("--containers", str(containers))))
    with yard.running("sessions", *words) as run:
        yard.wait_for_output()
        would = json.loads(drain(yard, "--dry-run", "--json"))
        assert would["drained"] is False
        assert run.poll() is None
        assert json.loads(drain(yard, "--json")) == {**would, "drained": True}
        said = ended(run, 0)
    assert "drains: it ends once" in said
    assert yard.written() == yard.expected("sessions")


def test_a_pipeline_that_does_not_run_is_not_drained(on_log: Yard, fluvial: Fluvial) -> None:
    refused = fluvial("drain", f"{on_log.target}:sessions", "--system", on_log.system.url)
    assert refused.code == 4
    assert "cannot be drained: no container of it runs" in refused.err
    assert 'run it with until="end"' in refused.err


@pytest.mark.kafka
@pytest.mark.long
def test_a_container_that_dies_amid_a_drain_goes_on_to_its_end(broker: Broker, tmp_path: Path) -> None:
    yard = make_yard(KafkaSystem(broker.address), tmp_path)
    words = ("--guarantee", "exactly_once", "--containers", "2")
    with yard.running("sessions", *words) as run:
        first = yard.container("sessions", 0, run)
        assert first is not None
        draining = subprocess.Popen(
            [FLUVIAL, "drain", f"{yard.target}:sessions", "--system", yard.system.url], cwd=yard.folder
        )
        wait_until(lambda: told(yard), "the run is told", PATIENCE)
        kill(first)
        assert draining.wait(PATIENCE) == 0
        ended(run, 0)
    assert yard.written() == yard.expected("sessions")


@pytest.mark.long
def test_a_run_that_dies_amid_a_drain_is_followed_by_one_that_goes_on(yard: Yard) -> None:
    with yard.running("sessions", "--guarantee", "exactly_once") as run:
        yard.wait_for_output()
        draining = subprocess.Popen(
            [FLUVIAL, "drain", f"{yard.target}:sessions", "--system", yard.system.url],
            cwd=yard.folder,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: told(yard), "the run is told", PATIENCE)
        run.kill()
        run.wait()
        with yard.running("sessions", "--guarantee", "exactly_once") as again:
            draining.wait(PATIENCE)
            assert again.poll() is None, "a run was drained by what another one was told"
            drain(yard)
            ended(again, 0)
    assert yard.written() == yard.expected("sessions")


def told(yard: Yard) -> bool:
    """Whether a run was told to drain."""
    state, _ = Coordinator(yard.system, yard.pipeline("sessions").name).read()
    return state.drain is not None

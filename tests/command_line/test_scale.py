"""`scale`: a pipeline that runs on Kafka has another number of containers, and goes on."""

import json
import signal
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from kafka.container_runs import Yard, ended, make_yard

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


@pytest.fixture
def yard(broker: Broker, tmp_path: Path) -> Yard:
    return make_yard(KafkaSystem(broker.address), tmp_path)


def test_a_pipeline_has_more_and_fewer_containers_while_it_runs(yard: Yard, fluvial: Fluvial) -> None:
    def scale(*words: str) -> str:
        done = fluvial("scale", f"{yard.target}:sessions", "--system", yard.system.url, *words)
        assert done.code == 0, done.err
        return done.out

    words = ("--containers", "1", "--guarantee", "exactly_once")
    with yard.running("sessions", *words) as run:
        yard.wait_for_output()
        first = f"{yard.name}-words/3"
        would = json.loads(scale("--containers", "2", "--dry-run", "--json"))
        assert {"task": first, "from": 0, "to": 1, "moved": False} in would
        assert f"moved {first} from container 0 to 1\n" in scale("--containers", "2")
        assert f"moved {first} from container 1 to 0\n" in scale("--containers", "1")
        assert scale("--containers", "1") == "no task had to move\n"
        run.send_signal(signal.SIGTERM)
        said = ended(run, 0)
    assert "the run has 2 containers from now on, in place of 1" in said
    assert "the run has 1 container from now on, in place of 2" in said
    yard.run("sessions", "--guarantee", "exactly_once")
    assert yard.written() == yard.expected("sessions")


def test_a_pipeline_that_does_not_run_is_not_scaled(yard: Yard, fluvial: Fluvial) -> None:
    yard.run("sessions")
    refused = fluvial("scale", f"{yard.target}:sessions", "--system", yard.system.url, "--containers", "2")
    assert refused.code == 4
    assert "no container of it runs" in refused.err

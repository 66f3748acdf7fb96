"""A run on a broker whose size follows its load. Waits are shorter than a user's."""

import threading
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from confluent_kafka import Producer

from fluvial.planner import Settings
from fluvial.runtime import Report
from fluvial.runtime.autosize import Autosize, BusyTimeAutosizer
from fluvial.runtime.containers import autosizing
from fluvial.runtime.containers.autosizing import AutosizePace
from fluvial.runtime.containers.start import SupervisedContainers, run_containers
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.process.run_control import RUN_CONTROL, RunControl
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]

PIPELINE = '''"""A function that blocks."""

import time

from fluvial.dsl import Pipeline


def slow(value: str) -> str:
    time.sleep(0.002)
    return value


pipeline = Pipeline("autosized")
pipeline.stream("autosized-in", value=str, key=str).map(slow).send_to("autosized-out")
'''
SHORT = AutosizePace(decide=0.2, window=2.0, record=1.0)


def test_a_run_gets_containers_and_key_buckets_as_it_falls_behind(broker: Broker, tmp_path: Path) -> None:
    system, target = KafkaSystem(broker.address), tmp_path / "autosized.py"
    target.write_text(PIPELINE)
    system.admin().create("autosized-in", 1)
    said, control, reports = list[str](), RunControl(), list[Report]()
    asked = Autosize(containers=(1, 2), elasticity=(1, 2), autosizer=BusyTimeAutosizer())
    containers = SupervisedContainers(number=1, most_restarts=0, autosize=asked)

    def run() -> None:
        RUN_CONTROL.set(control)
        settings = Settings(state_dir=str(tmp_path / "state"), guarantee="exactly_once")
        pipeline = load_pipeline(str(target))
        made = run_containers(
            pipeline, str(target), system, settings, "stopped", containers, progress=None, say=said.append
        )
        reports.append(made)

    producer = Producer({"bootstrap.servers": broker.address, "partitioner": "murmur2_random"})
    sent = 0
    with patch.object(autosizing, "PACE", SHORT):
        running = threading.Thread(target=run)
        running.start()
        until = time.monotonic() + 60
        while not any("autosizer: 2 containers after" in line for line in said) and time.monotonic() < until:
            for _ in range(80):  # a second in which one container could process some 400 messages
                producer.produce("autosized-in", key=b"k%d" % (sent % 97), value=b"v%d" % sent)
                sent += 1
            producer.poll(0)
            time.sleep(0.1)
        producer.flush()
        del producer  # before its broker
        wait_until(lambda: _written(system) == sent, "all that was sent", 60)
        control.stop.request()
        running.join(30)
    assert sum(reports[0].read.values()) <= sent  # of what ran last
    assert any(line.startswith("autosizer: from 1 to 2 containers: the busiest container needs ") for line in said), (
        said
    )
    sizing = Coordinator(system, "autosized").read()[0].sizing
    assert sizing is not None
    assert sizing.containers == 2
    assert sizing.elasticity == {"autosized-in": 2}


def _written(system: KafkaSystem) -> int:
    """The messages that were written; they are read, as each transaction leaves a marker in the partition."""
    ends = system.admin().ends("autosized-out")
    consumer = system.consumer()
    try:
        consumer.assign({("autosized-out", number): 0 for number in range(len(ends))})
        seen, reached = 0, dict.fromkeys(range(len(ends)), 0)
        while any(reached[number] < end for number, end in enumerate(ends)):
            for batch in consumer.poll(0.5):
                seen += len(batch.records)
                reached[batch.partition] = batch.next_offset
        return seen
    finally:
        consumer.close()

"""A run on Spark and Kafka that is killed at any moment, and then run to its end, has lost nothing."""

import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from uuid import uuid4

import pytest

from waiting import wait_until

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from engines.visits_on_spark import to_the_end, visits
from faults.spark_runs import running
from fluvial.dsl.message import Record
from fluvial.planner.settings import Guarantee
from fluvial.runtime.spark.connectors.kafka_sink import MESSAGE_ID
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from oracle.interpreter import OutputMessage, run_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 300.0
INPUT: list[list[Record]] = [
    [(None, f"{'abcdefg'[number // 2 % 7]} {number}".encode(), 1, ()) for number in part]
    for part in (range(0, 1200, 4), range(2, 1200, 4))
]


def noted(folder: Path, kind: str) -> int:
    """How many batches Spark has planned, or done."""
    return len(list(folder.glob(f"**/spark/{kind}/[0-9]*")))


def wait_for_a_batch(process: "subprocess.Popen[bytes]", folder: Path, kind: str) -> None:
    """Until one more is planned, or done, or the process ends."""
    before = noted(folder, kind)
    wait_until(lambda: noted(folder, kind) > before or process.poll() is not None, "one more batch", PATIENCE)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(1800)
@pytest.mark.long
@pytest.mark.parametrize("kills", [1, 5])
@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_nothing_is_lost_by_a_kill_and_repeats_are_exact(
    broker: Broker, spark: "SparkSession", tmp_path: Path, kills: int, guarantee: Guarantee
) -> None:
    name, system = f"p{uuid4().hex[:8]}", KafkaSystem(broker.address)
    write(system, {f"{name}.lines": INPUT})
    chosen = random.Random(4)
    for _ in range(kills):
        with running(name, broker.address, str(tmp_path), guarantee) as process:
            wait_for_a_batch(process, tmp_path, chosen.choice(("offsets", "commits")))
            time.sleep(chosen.uniform(0, 0.5))

    report = to_the_end(name, broker.address, str(tmp_path), spark, guarantee)

    assert report.read[f"{name}.lines"] > 0, "the kills came too late"
    found = contents(system, f"{name}.out")
    written = Counter(OutputMessage(*record[:3], ()) for record in found)
    expected = Counter(run_oracle(visits(name), {f"{name}.lines": INPUT})[f"{name}.out"])
    assert set(expected.values()) == {1}
    assert written.keys() == expected.keys()
    if guarantee == "at_least_once":
        by_id = {
            dict(headers)[MESSAGE_ID]: OutputMessage(key, value, time_ms, ()) for key, value, time_ms, headers in found
        }
        assert Counter(by_id.values()) == expected
    else:
        assert written == expected

"""Key buckets are split from 8 to 512 over Kafka, by drivers that are killed at any point of it: nothing is lost."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines import split_on_spark
from engines.split_on_spark import counted
from engines.targets import append, contents, write
from faults.spark_runs import begun
from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from kafka.broker_jars import connector_jars
from oracle.interpreter import run_oracle
from waiting import wait_until

PATIENCE = 500.0
KEYS = 500
OUTPUTS = ("out", "first")
SPLITS = [
    (16, "query"),
    (64, "spark/offsets/0"),
    (128, "spark/state/*/*/*.changelog"),
    (512, "spark/commits/0"),
]
"""The number of buckets, and a file of the new checkpoint behind which the driver is killed."""


def part(number: int) -> list[list[Record]]:
    """Lines of each key in each part."""
    lines = range(number * KEYS, (number + 1) * KEYS)
    return [[(None, f"k{line % KEYS} {line}".encode(), 1, ()) for line in lines if line % 2 == one] for one in (0, 1)]


class Runs:
    """Runs of `counted` on Kafka with their state in a folder."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.name, self.folder, self.servers = f"p{uuid4().hex[:8]}", folder, broker.address
        self.system = KafkaSystem(broker.address)
        self.input = part(0)
        write(self.system, {f"{self.name}.lines": self.input})

    def more(self, number: int) -> None:
        for partition, records in enumerate(part(number)):
            append(self.system, f"{self.name}.lines", partition, records)
            self.input[partition] += records

    @contextmanager
    def started(self, buckets: int, until: str = "caught-up") -> Iterator["subprocess.Popen[bytes]"]:
        words = [self.name, self.servers, str(self.folder), str(buckets), until]
        with begun(words, connector_jars(), {}, program=split_on_spark.__file__) as process:
            yield process

    def ended(self, buckets: int, until: str = "caught-up") -> None:
        with self.started(buckets, until) as process:
            said = process.communicate(timeout=PATIENCE)[1].decode()
            assert process.returncode == 0, said

    def checkpoints(self) -> dict[int, Path]:
        """By their number of buckets."""
        found = self.folder.joinpath(self.name).glob("*/*/query")
        return {msgspec.json.decode(file.read_bytes())["buckets"]: file.parent for file in found}

    def has(self, buckets: int, pattern: str) -> bool:
        folder = self.checkpoints().get(buckets)
        return folder is not None and any(folder.glob(pattern))

    def written(self, stream: str) -> Counter[bytes | None]:
        return Counter(value for _, value, _, _ in contents(self.system, f"{self.name}.{stream}"))


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_lost_where_a_driver_is_killed_while_it_splits(broker: Broker, tmp_path: Path) -> None:
    runs = Runs(broker, tmp_path / "state")
    runs.ended(8)
    for number, (buckets, point) in enumerate(SPLITS, 1):
        runs.more(number)
        with runs.started(buckets) as process:
            wait_until(partial(runs.has, buckets, point), f"{buckets} buckets are at {point}", PATIENCE)
            assert process.poll() is None
        runs.ended(buckets)
        assert buckets in runs.checkpoints()
    runs.ended(0, until="end")
    assert [*runs.checkpoints()] == [512]
    expected = run_oracle(counted(runs.name), {f"{runs.name}.lines": runs.input})
    for stream in OUTPUTS:
        assert runs.written(stream) == Counter(message.value for message in expected[f"{runs.name}.{stream}"])

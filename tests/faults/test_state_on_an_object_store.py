"""State of queries on an object store, which renames nothing at one stroke: kills, pauses, two runs, a reset."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import ANY
from uuid import uuid4

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from engines.visits_on_spark import visits
from faults.spark_runs import begun
from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from kafka.broker_jars import connector_jars
from oracle.interpreter import OutputMessage, run_oracle
from s3.object_store import BUCKET, CLIENT, ObjectStore
from waiting import wait_until

PATIENCE = 500.0
INPUT: list[list[Record]] = [
    [(None, f"{'abcdefg'[number // 2 % 7]} {number}".encode(), 1, ()) for number in part]
    for part in (range(0, 600, 4), range(2, 600, 4))
]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("s3")) as started:
        yield started


class Runs:
    """Runs of visits with their state in a store."""

    def __init__(self, broker: Broker, store: ObjectStore) -> None:
        self.name, self.broker, self.store = f"p{uuid4().hex[:8]}", broker, store
        self.system = KafkaSystem(broker.address)
        self.url = f"{store.url}/{self.name}"
        write(self.system, {f"{self.name}.lines": INPUT})

    def started(self, *words: str, url: str = "") -> AbstractContextManager["subprocess.Popen[bytes]"]:
        arguments = [self.name, self.broker.address, url or self.url, "exactly_once", *words]
        return begun(arguments, [*connector_jars(), *CLIENT.paths()], self.store.settings)

    def ended(self, *words: str, url: str = "") -> tuple[int, str]:
        """The exit code of a process that has come to its end by itself, and what it has said."""
        with self.started(*words, url=url) as process:
            return end_of(process)

    def files(self, pattern: str = "") -> list[Path]:
        return [one for one in (self.store.objects / BUCKET / self.name).glob(f"**/{pattern or '*'}") if one.is_file()]

    def wait_for_one_more(self, pattern: str) -> None:
        """Until Spark's checkpoint has one more file like that."""
        before = len(self.files(f"spark/{pattern}"))
        wait_until(lambda: len(self.files(f"spark/{pattern}")) > before, f"one more {pattern}", PATIENCE)

    def check(self) -> None:
        """Each output was written once, and as the oracle says."""
        found = Counter(OutputMessage(*record[:3], ()) for record in contents(self.system, f"{self.name}.out"))
        assert found == Counter(run_oracle(visits(self.name), {f"{self.name}.lines": INPUT})[f"{self.name}.out"])


def end_of(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    said = process.communicate(timeout=PATIENCE)[1].decode()
    return process.returncode, said


def test_nothing_is_lost_by_kills_of_the_driver_and_of_the_store(broker: Broker, store: ObjectStore) -> None:
    runs = Runs(broker, store)
    for point in ("offsets/[0-9]*", "state/**/*.changelog", "commits/[0-9]*"):
        with runs.started():
            runs.wait_for_one_more(point)
    with runs.started() as process:
        runs.wait_for_one_more("commits/[0-9]*")
        store.kill()
        store.start()
        assert end_of(process) == (0, ANY)
    runs.check()
    assert runs.files("query")
    assert runs.ended("reset") == (0, ANY)
    assert runs.files() == []


def test_a_second_run_ends_the_first(broker: Broker, store: ObjectStore) -> None:
    """It fails if it commits a batch that the first one has just committed; then the first one has come to its end
    too, and a third goes on."""
    runs = Runs(broker, store)
    with runs.started() as first:
        runs.wait_for_one_more("commits/[0-9]*")
        second = runs.ended()
        code, said = end_of(first)
    assert code != 0
    assert "another run" in said
    assert second[0] == 0 or "another run" in second[1]
    assert runs.ended() == (0, ANY)
    runs.check()


def test_a_bucket_that_there_is_not_is_refused(broker: Broker, store: ObjectStore) -> None:
    runs = Runs(broker, store)
    code, said = runs.ended(url="s3a://nowhere/states")
    assert code != 0
    assert "Spark cannot use s3a://nowhere/states" in said
    assert f"{runs.name}.out" not in runs.system.admin().streams()

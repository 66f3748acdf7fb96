"""Sinks on Spark that store each message once, by the part of the batch that they are told."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from engines.targets import write
from explained import error_of
from fluvial.dsl import BatchPart, Message, MessageError, Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import KafkaSystem, LogSystem
from kafka.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


class Files:
    """A file for each part; one that begins again is written anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Files are opened by part."""

    def begin(self, part: BatchPart) -> None:
        self._file = self._folder / f"{part.query}-{part.batch}-{part.partition}-{part.operator}"
        self._file.write_text("")

    def write(self, messages: Sequence[Message[str]]) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{message.value}\n" for message in messages)

    def flush(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Files are closed after each write."""


class FailsOnce:
    """Raises an error for one message, once."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, text: str) -> str:
        if text == "19" and not self._mark.exists():
            self._mark.touch()
            raise ValueError("as told")
        return text


def test_a_batch_that_is_run_again_writes_its_parts_anew(spark: "SparkSession", tmp_path: Path) -> None:
    folder, system = tmp_path / "files", LogSystem(tmp_path / "log", fsync=False)
    folder.mkdir()
    write(system, {"in": [[(b"k", b"%d" % number, 0, ()) for number in range(start, 20, 2)] for start in (0, 1)]})
    pipeline = Pipeline("parts")
    texts = pipeline.stream("in", value=str)
    texts.sink(Files(folder), id="early")
    keyed = texts.partition_by(lambda text: text, id="by-text", key_type=str).deduplicate(timedelta(1), id="once")
    keyed.map(FailsOnce(tmp_path / "failed")).sink(Files(folder), id="late")

    def once() -> None:
        settings = Settings(spark_buckets=2)
        run(pipeline, engine="spark", system=system, until="end", settings=settings, spark=spark)

    assert "as told" in str(error_of(once, MessageError))
    assert list(folder.glob("*-early"))
    once()
    for id in ("early", "late"):
        written = [line for file in folder.glob(f"*-{id}") for line in file.read_text().split()]
        assert sorted(written, key=int) == [str(number) for number in range(20)]


@pytest.mark.kafka
@pytest.mark.long  # tests/runtime/spark/worker/test_source_level.py tests the numbers of parts without Spark
def test_a_batch_of_kafka_that_is_run_again_writes_its_parts_anew(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    """Only one partition has messages for the sink: what another number had before would stay."""
    name, folder, system = f"p{uuid4().hex[:8]}", tmp_path / "files", KafkaSystem(broker.address)
    folder.mkdir()
    write(system, {f"{name}.in": [[(b"k", b"%d" % part, 0, ())] for part in (1, 1, 19)]})
    pipeline = Pipeline(name)
    texts = pipeline.stream(f"{name}.in", value=str)
    texts.filter(lambda text: text == "19").sink(Files(folder), id="early")
    keyed = texts.partition_by(lambda text: text, id="by-text", key_type=str).deduplicate(timedelta(1), id="once")
    keyed.map(FailsOnce(tmp_path / "failed")).send_to(f"{name}.out")

    def once() -> None:
        settings = Settings(spark_buckets=2, state_dir=str(tmp_path / "state"))
        run(pipeline, engine="spark", system=system, until="end", settings=settings, spark=spark)

    assert "as told" in str(error_of(once, MessageError))
    assert len(list(folder.iterdir())) == 1
    once()
    assert [file.read_text() for file in folder.iterdir()] == ["19\n"]

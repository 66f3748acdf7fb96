"""State and checkpoints of queries on file systems that Spark reaches by Hadoop."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import append, contents, write
from engines.visits_on_spark import small, to_the_end, visits
from explained import assert_explains, error_of
from faults.spark_runs import running
from fluvial.dsl import Pipeline, UsageError
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import reset, run
from fluvial.runtime.spark.hadoop_path import HadoopPath
from fluvial.runtime.state.checkpoint_path import children
from fluvial.runtime.systems import KafkaSystem, LogSystem
from hdfs.mini_hdfs import MiniHdfs
from kafka.broker import Broker
from oracle.interpreter import OutputMessage, run_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
MINUTE = timedelta(minutes=1)
INPUT: list[list[Record]] = [
    [(None, f"{'abcdefg'[number // 2 % 7]} {number}".encode(), 1, ()) for number in part]
    for part in (range(0, 600, 4), range(2, 600, 4))
]
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def expected(name: str) -> Counter[OutputMessage]:
    return Counter(run_oracle(visits(name), {f"{name}.lines": INPUT})[f"{name}.out"])


def written(system: KafkaSystem, name: str) -> Counter[OutputMessage]:
    return Counter(OutputMessage(*record) for record in contents(system, f"{name}.out"))


def goes_on_and_is_reset(broker: Broker, spark: "SparkSession", url: str) -> None:
    """Run in two parts, which the oracle sees as one; then start over."""
    name, system = f"p{uuid4().hex[:8]}", KafkaSystem(broker.address)
    settings = small(url, 100, "exactly_once")
    write(system, {f"{name}.lines": [part[:50] for part in INPUT]})
    run(visits(name), engine="spark", system=system, settings=settings, until="caught-up", spark=spark)
    for number, part in enumerate(INPUT):
        append(system, f"{name}.lines", number, part[50:])
    report = run(visits(name), engine="spark", system=system, settings=settings, until="end", spark=spark)
    assert report.resumed
    assert written(system, name) == expected(name)

    root = HadoopPath.of(spark, url) / name
    assert children(root)
    steps = reset(visits(name), engine="spark", system=system, settings=settings, dry_run=True)
    assert [step.kind for step in steps] == ["query"]
    reset(visits(name), engine="spark", system=system, settings=settings)
    assert [one for stage in children(root) for one in children(stage)] == []


@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_state_behind_a_url_is_gone_on_with_and_removed(broker: Broker, spark: "SparkSession", tmp_path: Path) -> None:
    goes_on_and_is_reset(broker, spark, f"file://{tmp_path}/state")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    with MiniHdfs(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("manager", ["FileContext", "FileSystem"])
def test_state_on_hdfs_is_gone_on_with_and_removed(
    broker: Broker, spark: "SparkSession", hdfs: MiniHdfs, manager: str
) -> None:
    """By Spark's default manager, and by the one that it falls back to, which replaces no file."""
    spark.conf.set(
        MANAGER, f"org.apache.spark.sql.execution.streaming.checkpointing.{manager}BasedCheckpointFileManager"
    )
    try:
        goes_on_and_is_reset(broker, spark, f"{hdfs.url}/{manager}")
    finally:
        spark.conf.unset(MANAGER)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
def test_nothing_is_lost_on_hdfs_by_kills(broker: Broker, spark: "SparkSession", hdfs: MiniHdfs) -> None:
    name, system, url = f"p{uuid4().hex[:8]}", KafkaSystem(broker.address), f"{hdfs.url}/killed"
    write(system, {f"{name}.lines": INPUT})
    chosen = random.Random(1)
    for _ in range(3):
        with running(name, broker.address, url, "exactly_once"):
            time.sleep(chosen.uniform(12, 25))
    to_the_end(name, broker.address, url, spark, "exactly_once")
    found = Counter(OutputMessage(*record[:3], ()) for record in contents(system, f"{name}.out"))
    assert found == expected(name)


def test_the_local_engine_and_the_log_take_no_url(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).deduplicate(within=MINUTE, id="once").send_to("out")
    settings = Settings(state_dir="hdfs://host/folder")
    system = f"log:{tmp_path}"
    write(LogSystem(tmp_path, fsync=False), {"in": [[(b"k", b"v", 1, ())]]})
    error = error_of(lambda: run(pipeline, system=system, settings=settings, until="end"), UsageError)
    assert_explains(error, "state_dir='hdfs://host/folder'", None, "a folder", "restored from changelogs")
    error = error_of(lambda: run(pipeline, engine="spark", system=system, settings=settings, until="end"), UsageError)
    assert_explains(error, "which is a folder that all workers see", None, "a system that needs no shared folder")
    assert not Path("hdfs:").exists()

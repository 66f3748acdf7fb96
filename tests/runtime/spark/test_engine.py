"""The Spark engine on a real Spark: what no model of it can show."""

import os
import shutil
import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fluvial.dsl import MessageError, Pipeline, PlanError, SystemProblem, UnsupportedError, UsageError, count, session
from fluvial.planner import Settings
from fluvial.runtime import Progress, Report, reset, run
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
GAP = timedelta(milliseconds=10)
SMALL = Settings(spark_batch_records=200, spark_buckets=4)


def time_of(line: str) -> int:
    return int(line.split()[1])


def key_of(line: str) -> str:
    return line.split(maxsplit=1)[0]


def visits(seen: Path | None = None, name: str = "visits") -> Pipeline:
    """Sessions of lines like "ada 17"; each process that decodes one leaves a file named after itself in `seen`."""

    def noted(line: str) -> str:
        if seen is not None:
            (seen / str(os.getpid())).touch()
        return line

    pipeline = Pipeline(name)
    lines = pipeline.stream("lines", value=str, timestamp=time_of).map(noted)
    keyed = lines.partition_by(key_of, id="by-name", key_type=str, value=str)
    keyed.map(noted).window(session(GAP), count(), id="sessions").send_to("out")
    return pipeline


def written(folder: Path, lines: list[str], partitions: int = 2) -> LogSystem:
    """A log with a stream of lines, dealt out to its partitions."""
    system = LogSystem(folder, fsync=False)
    system.admin().create("lines", partitions)
    append(system, lines, partitions)
    return system


def append(system: LogSystem, lines: list[str], partitions: int = 2) -> None:
    producer = system.producer()
    transaction = producer.begin()
    for number in range(partitions):
        transaction.append("lines", number, [(None, line.encode(), 0, ()) for line in lines[number::partitions]])
    transaction.commit()
    producer.close()


def outputs(system: LogSystem, stream: str = "out") -> list[tuple[bytes | None, bytes | None]]:
    """What a stream holds, in no order."""
    consumer = system.consumer()
    ends = system.admin().ends(stream)
    consumer.assign({(stream, number): 0 for number in range(len(ends))})
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < sum(ends):
        found += [record[:2] for batch in consumer.poll(1.0) for record in batch.records]
    consumer.close()
    return sorted(found)


LINES = [f"{'abcdefg'[number % 7]} {number}" for number in range(0, 900, 2)]


def on_local(folder: Path, lines: list[str] = LINES) -> list[tuple[bytes | None, bytes | None]]:
    system = written(folder, lines)
    run(visits(), system=system, until="end")
    return outputs(system)


def test_several_batches_and_processes_give_what_the_local_engine_does(tmp_path: Path, spark: "SparkSession") -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    system = written(tmp_path / "log", LINES)
    report = run(visits(seen), engine="spark", system=system, settings=SMALL, until="end", spark=spark)
    assert outputs(system) == on_local(tmp_path / "local")
    assert report.read == {"lines": len(LINES), "visits-by-name": len(LINES)}
    assert list(report.written) == ["visits-by-name", "out"]
    assert report.checkpoints == 3
    assert len(list(seen.iterdir())) >= 2


@pytest.mark.long  # tests/spark_engine/test_on_kafka.py does the same each time, and does more
def test_a_run_stopped_between_batches_is_gone_on_with(tmp_path: Path, spark: "SparkSession") -> None:
    system = written(tmp_path / "log", LINES)
    told: list[Progress] = []

    def stop_soon(progress: Progress) -> None:
        told.append(progress)
        if progress.read and progress.phase == "running":
            os.kill(os.getpid(), signal.SIGTERM)

    first = run(visits(), engine="spark", system=system, settings=SMALL, progress=stop_soon, spark=spark)
    second = run(visits(), engine="spark", system=system, settings=SMALL, until="end", spark=spark)
    assert outputs(system) == on_local(tmp_path / "local")
    assert first.read["lines"] + second.read.get("lines", 0) == len(LINES)
    last = told[-1]
    assert last.watermark is not None
    assert 0 < last.watermark < 900
    assert last.lag is not None
    assert last.in_flight <= last.lag <= len(LINES)


def test_functions_may_hold_more_than_spark_sends_at_once(tmp_path: Path, spark: "SparkSession") -> None:
    names = os.urandom(2 << 20)
    pipeline = Pipeline("heavy")
    lines = pipeline.stream("lines", value=str).map(lambda line: f"{line} of {len(names)}")
    lines.partition_by(key_of, id="by-name", key_type=str, value=str).map(str).send_to("out")
    system = written(tmp_path / "log", ["a 1"])
    run(pipeline, engine="spark", system=system, settings=SMALL, until="end", spark=spark)
    assert outputs(system) == [(b"a", b"a 1 of 2097152")]


def test_a_session_of_this_process_is_used_and_left_up(tmp_path: Path, spark: "SparkSession") -> None:
    """A notebook has one; Spark gives a process no second."""
    system = written(tmp_path / "log", ["ada 0", "ada 1"])
    run(visits(), engine="spark", system=system, settings=SMALL, until="end")
    assert len(outputs(system)) == 1
    assert spark.range(3).count() == 3
    with pytest.raises(UsageError, match=r"spark='local\[3\]', where this process has a session of 'local\[2\]'"):
        run(visits(), engine="spark", system=system, settings=SMALL, until="end", spark="local[3]")


def test_a_session_may_have_other_settings_of_arrow_and_gets_them_back(tmp_path: Path, spark: "SparkSession") -> None:
    prefix = "spark.sql.execution.arrow"
    others = {f"{prefix}.maxRecordsPerBatch": "0", f"{prefix}.useLargeVarTypes": "true"}
    before = {name: str(spark.conf.get(name)) for name in others}
    for name, value in others.items():
        spark.conf.set(name, value)
    try:
        system = written(tmp_path / "log", LINES[:60])
        run(visits(), engine="spark", system=system, settings=SMALL, until="end", spark=spark)
        assert {name: spark.conf.get(name) for name in others} == others
    finally:
        for name, old in before.items():
            spark.conf.set(name, old)
    assert outputs(system) == on_local(tmp_path / "local", LINES[:60])


def test_a_later_run_goes_on_where_the_end_of_input_was(tmp_path: Path, spark: "SparkSession") -> None:
    system = written(tmp_path / "log", ["a 1", "b 1", "a 3", "b 3"])
    run(visits(), engine="spark", system=system, until="end", spark=spark)
    append(system, ["a 40", "b 41"])
    report: Report = run(visits(), engine="spark", system=system, until="end", spark=spark)
    assert report.read["lines"] == 2
    assert len(outputs(system)) == 4


def test_a_checkpoint_put_back_from_a_copy_is_refused(tmp_path: Path, spark: "SparkSession") -> None:
    """Its next batch has the number of one that is published: it would be dropped, with other messages in it."""
    system, kept = written(tmp_path / "log", ["a 1", "b 1"]), tmp_path / "log" / "spark"
    run(visits(), engine="spark", system=system, until="end", spark=spark)
    shutil.copytree(kept, tmp_path / "copy")
    append(system, ["a 40", "b 41"])
    run(visits(), engine="spark", system=system, until="end", spark=spark)
    shutil.rmtree(kept)
    shutil.move(tmp_path / "copy", kept)
    with pytest.raises(SystemProblem, match=r"is older than its outputs: batches planned 1, published in log:.* 2"):
        run(visits(), engine="spark", system=system, until="end", spark=spark)
    (step,) = reset(visits(), engine="spark", system=system)
    assert step.kind == "query"
    run(visits(), engine="spark", system=system, until="end", spark=spark)
    assert len(outputs(system)) == 4 + 4


def test_a_batch_that_is_run_again_is_published_once(tmp_path: Path, spark: "SparkSession") -> None:
    system = written(tmp_path / "log", LINES)
    run(visits(), engine="spark", system=system, settings=SMALL, until="end", spark=spark)
    found = outputs(system)
    for name in ("2", ".2.crc"):  # as if Spark had been killed before it noted that the last batch is done
        next((tmp_path / "log" / "spark").glob(f"**/commits/{name}")).unlink()
    run(visits(), engine="spark", system=system, settings=SMALL, until="end", spark=spark)
    assert outputs(system) == found


def test_a_function_that_raises_stops_the_run_and_names_the_users_line(tmp_path: Path, spark: "SparkSession") -> None:
    pipeline = Pipeline("raising")
    pipeline.stream("lines", value=str).map(int).send_to("out")
    line = pipeline.operator("map-2").origin.line
    system = written(tmp_path, ["not a number"], partitions=1)
    with pytest.raises(MessageError) as raised:
        run(pipeline, engine="spark", system=system, until="end", spark=spark)
    assert "map(int) failed on the message at lines, partition 0, offset 0, key none: ValueError" in str(raised.value)
    assert f"test_engine.py:{line}" in str(raised.value)
    assert "set Pipeline(on_error=skip())" in str(raised.value)
    assert outputs(system) == []


def test_a_changed_pipeline_is_refused_before_anything_starts(tmp_path: Path, spark: "SparkSession") -> None:
    system = written(tmp_path, ["a 1"])
    run(visits(), engine="spark", system=system, until="end", spark=spark)
    with pytest.raises(PlanError, match="spark_buckets: was 64, is 3"):
        run(visits(), engine="spark", system=system, until="end", spark=spark, settings=Settings(spark_buckets=3))


def test_streams_in_memory_are_refused(spark: "SparkSession") -> None:
    with pytest.raises(PlanError, match="does not exist in memory:"):
        run(visits(), engine="spark", system="memory:", until="end", spark=spark)


def test_a_circle_of_stages_is_refused(tmp_path: Path, spark: "SparkSession") -> None:
    pipeline = Pipeline("circle")
    lines = pipeline.stream("lines", value=str)
    lines.merge(lines.partition_by(key_of, id="by-name", key_type=str)).send_to("out")
    with pytest.raises(UnsupportedError, match="from behind a partition_by together with others from before it"):
        run(pipeline, engine="spark", system=written(tmp_path, ["a 1"]), until="end", spark=spark)

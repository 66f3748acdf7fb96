"""Under exactly_once, a reader of Kafka sees each output of the Spark engine once."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from engines.visits_on_spark import small, visits
from explained import assert_explains
from fluvial.dsl import MessageError, Pipeline
from fluvial.dsl.message import Record
from fluvial.runtime import run
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from oracle.interpreter import OutputMessage, run_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(400)]

LINES: list[list[Record]] = [
    [(None, f"{'abcdefg'[number % 7]} {number}".encode(), 1, ()) for number in part]
    for part in (range(0, 600, 2), range(1, 600, 2))
]


@pytest.mark.long  # tests/spark_engine/test_state_on_other_file_systems.py does the same each time, in two runs
def test_outputs_are_those_of_the_oracle_and_each_is_written_once(
    broker: Broker, tmp_path: Path, spark: "SparkSession"
) -> None:
    name, system = f"p{uuid4().hex[:8]}", KafkaSystem(broker.address)
    write(system, {f"{name}.lines": LINES})
    settings = small(tmp_path, 200, "exactly_once")
    report = run(visits(name), engine="spark", system=system, settings=settings, spark=spark, until="end")
    written = Counter(OutputMessage(*record) for record in contents(system, f"{name}.out"))
    assert written == Counter(run_oracle(visits(name), {f"{name}.lines": LINES})[f"{name}.out"])
    assert report.written[f"{name}.out"] == written.total()


def calls_noted(name: str, notes: Path) -> Pipeline:
    pipeline = Pipeline(name)

    def note(value: int) -> int:
        with notes.open("a") as file:
            file.write(f"{value}\n")
        if value == 399:
            raise ValueError("poison")
        return value

    pipeline.stream(f"{name}.in", value=int).map(note).send_to(f"{name}.out")
    return pipeline


def test_a_batch_with_an_error_leaves_nothing_and_calls_no_function_twice(
    broker: Broker, tmp_path: Path, spark: "SparkSession"
) -> None:
    name, system, notes = f"p{uuid4().hex[:8]}", KafkaSystem(broker.address), tmp_path / "notes"
    write(system, {f"{name}.in": [[(None, b"%d" % number, 1, ()) for number in range(400)]]})
    settings = small(tmp_path / "state", 300, "exactly_once")
    with pytest.raises(MessageError, match="poison") as raised:
        run(calls_noted(name, notes), engine="spark", system=system, settings=settings, spark=spark, until="end")
    assert_explains(raised.value, "ValueError: poison", None, "a function that takes every message")
    assert [record[1] for record in contents(system, f"{name}.out")] == [b"%d" % number for number in range(300)]
    assert notes.read_text().split() == [str(number) for number in range(400)]

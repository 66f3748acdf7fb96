"""Level 0 numbers what it passes on so that a batch that is run again numbers it alike."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from pyspark import TaskContext

from fluvial.dsl import BatchPart, Message, Pipeline, dead_letter
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import components, levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack, unpack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.rows import Messages, decode
from fluvial.runtime.spark.worker.source_level import level_zero
from fluvial.runtime.systems.contract import RecordBatch


def shipped_with(pipeline: Pipeline) -> ShippedPlan:
    made = plan(pipeline, partitions={"a": 2, "b": 2})
    (stages,) = components(made)
    return replace(pack(PlanBundle(made, levels(made, stages, 1), KeyBuckets(1), Size(2, 1), {})), run=pipeline.name)


def passed_on(shipped: ShippedPlan, stream: str, partition: int, value: bytes, task: int | None = None) -> set[Any]:
    """The numbers of the messages that leave the query: (producer, position)."""
    records: list[Record] = [(b"k", value, 1, ()), (b"k", value, 2, ())]
    batches = [RecordBatch(stream, partition, [4, 5], records)]
    rows = (row for made in level_zero(shipped, stream, partition, batches, task=task) for row in made)
    blocks = (decode(block) for _, _, block in rows)
    return {(block.producer, one) for block in blocks if isinstance(block, Messages) for one in block.positions}


class Told:
    """A sink that keeps what it is told."""

    def open(self) -> None:
        self.parts: list[BatchPart] = []

    def begin(self, part: BatchPart) -> None:
        self.parts.append(part)

    def write(self, messages: Sequence[Message[str]]) -> None:
        """Nothing is kept."""

    def flush(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing to close."""


def test_the_part_of_a_sink_is_that_of_its_source_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever task of Spark's reads the partition: its connector to Kafka does not always choose the same."""
    pipeline = Pipeline("parts")
    pipeline.stream("a", value=str).merge(pipeline.stream("b", value=str)).sink(Told(), id="told")
    shipped = shipped_with(pipeline)
    told = []
    for number in (7, 0):
        context = object.__new__(TaskContext)  # which its class would make only once
        context._partitionId = number
        context._localProperties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}
        monkeypatch.setattr(TaskContext, "_taskContext", context)
        for stream, partition in (("a", 1), ("b", 1)):
            passed_on(shipped, stream, partition, b"x")
        sink: Any = unpack(shipped)[0].plan.pipeline.sinks[0].sink
        told.append(list(sink.parts))
        sink.parts.clear()
    assert told[0] == told[1] == [BatchPart("q", 3, part, "told") for part in (1, 3)]
    for task in range(3):
        passed_on(shipped, "a", 0, b"x", task)
    assert len(set(sink.parts)) == 3, "several tasks read one DataFrame"


def test_outputs_of_several_tasks_of_a_producer_have_their_own_positions() -> None:
    pipeline = Pipeline("positions")
    pipeline.stream("a", value=str).merge(pipeline.stream("b", value=str)).send_to("out")
    shipped = shipped_with(pipeline)
    assert len(set().union(*(passed_on(shipped, "a", 0, b"x", task) for task in range(3)))) == 6


def test_dead_letters_of_all_sources_that_are_read_later_have_their_own_numbers() -> None:
    pipeline = Pipeline("letters", on_error=dead_letter())
    one, other = (pipeline.stream(name, key=str, value=str, timestamp=int) for name in ("a", "b"))
    one.merge(other).deduplicate(within=timedelta(minutes=1), id="once").send_to("out")
    shipped = shipped_with(pipeline)
    places = [(stream, partition) for stream in ("a", "b") for partition in (0, 1)]
    numbers = [passed_on(shipped, *place, b"no time") for place in places]
    assert len(set().union(*numbers)) == 8

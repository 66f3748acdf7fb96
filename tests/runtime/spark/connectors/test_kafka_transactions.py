"""The tasks of the sink under exactly_once, on a broker, without Spark."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from uuid import uuid4

import pytest

from waiting import wait_until

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem, UsageError
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.planner.settings import Guarantee
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.batch_report import BatchReport, Failure
from fluvial.runtime.spark.connectors.kafka import KafkaConnection
from fluvial.runtime.spark.connectors.kafka_format import settings_text
from fluvial.runtime.spark.connectors.kafka_transactions import (
    KafkaTarget,
    SinkTask,
    TransactionalSink,
    output_partitions,
)
from fluvial.runtime.spark.connectors.written_counts import CountingSink
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.lowering.query_plan import QueryPlan
from fluvial.runtime.spark.query.checkpoint_log import unfinished_batch
from fluvial.runtime.spark.rows import TaskReport, messages_of
from fluvial.runtime.spark.worker.output_partitions import OutputBlock, OutputPartitions
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka import BatchMarker
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Sink:
    """A topic of two partitions, and the tasks that write it for one query."""

    def __init__(self, broker: Broker, topic: str, tasks: int = 1) -> None:
        self.system, self.topic = KafkaSystem(broker.address), topic
        partitions = OutputPartitions.of({topic: 2}, tasks)
        self.target = KafkaTarget(settings_text(self.system.settings), f"p@{uuid4().hex}", partitions)

    def blocks(self, *values: Sequence[bytes]) -> list[OutputBlock]:
        """The blocks of a batch: the values of each partition."""
        return [
            OutputBlock((self.topic, partition), messages_of(self.topic, 0, range(len(part)), records(part)))
            for partition, part in enumerate(values)
            if part
        ]

    def write(self, batch: int, *values: Sequence[bytes], again: bool = False) -> None:
        SinkTask(self.target, batch, 0, again=again).write(iter(self.blocks(*values)))

    @property
    def visible(self) -> list[bytes]:
        return sorted(record[1] or b"" for record in contents(self.system, self.topic))


def records(values: Sequence[bytes]) -> list[Record]:
    return [(b"k", value, 1_000, (("h", b"1"),)) for value in values]


@pytest.fixture
def sink(broker: Broker, topic: Callable[..., str]) -> Sink:
    return Sink(broker, topic(2))


def test_a_batch_is_written_once_however_often_its_task_runs(sink: Sink) -> None:
    for batch, values in enumerate(([b"1", b"2"], [b"3"])):
        for again in (False, True, True):
            sink.write(batch, values, [b"other"] if batch else [], again=again)
    assert sink.visible == [b"1", b"2", b"3", b"other"]


def test_messages_may_come_in_another_order_when_a_batch_is_run_again(sink: Sink) -> None:
    sink.write(0, [b"1", b"2"])
    sink.write(0, [b"2", b"1"], again=True)
    assert sink.visible == [b"1", b"2"]


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("values", [[[b"1", b"3"]], [[b"1"]], [[b"1", b"2", b"2"]], [[]], [[], [b"1", b"2"]]])
def test_other_messages_stop_a_run(sink: Sink, values: list[list[bytes]], again: bool) -> None:
    """Also where a task does not know that it runs again: a stage that Spark runs again has first attempts."""
    sink.write(0, [b"1", b"2"])
    with pytest.raises(SystemProblem, match=r"would write other\s+messages to .* \[0\]"):
        sink.write(0, *values, again=again)
    assert sink.visible == [b"1", b"2"]


def test_what_another_attempt_has_open_is_dropped(sink: Sink) -> None:
    zombie = sink.target.producer(0)
    zombie.begin()
    zombie.send(sink.topic, 0, records([b"zombie"]))
    zombie.mark(sink.target.markers(), {(sink.topic, 0): BatchMarker(0, 1)})
    sink.write(0, [b"1"])
    with pytest.raises(SystemProblem, match="taken over"):
        zombie.commit()
    zombie.close()
    assert sink.visible == [b"1"]


def test_a_checkpoint_that_is_older_than_its_outputs_is_refused(sink: Sink) -> None:
    sink.write(5, [b"1"])
    with pytest.raises(SystemProblem, match=r"has come to batch 4, but .* has the\s+outputs of batch 5 already"):
        sink.write(4, [b"1"])


def test_a_failure_leaves_nothing(sink: Sink) -> None:
    failed = BatchReport(failure=Failure("MessageError", "why", "trace"))
    blocks = [OutputBlock(None, TaskReport(failed)), *sink.blocks([b"1"])]
    assert SinkTask(sink.target, 0, 0).write(iter(blocks)).failure == failed.failure
    assert sink.visible == []
    assert not sink.target.markers().read([(sink.topic, 0)])


def test_a_task_that_gets_a_part_of_its_rows_leaves_nothing(sink: Sink) -> None:
    def cut() -> Iterator[OutputBlock]:
        yield from sink.blocks([b"1"])
        raise SystemProblem("cut off")

    with pytest.raises(SystemProblem, match="cut off"):
        SinkTask(sink.target, 0, 0).write(cut())
    assert sink.visible == []
    sink.write(0, [b"1", b"2"], again=True)
    assert sink.visible == [b"1", b"2"]


def test_a_transaction_that_has_taken_too_long_says_so(broker: Broker, topic: Callable[..., str]) -> None:
    """Brokers end it, and refuse what comes as if another producer had the id."""
    made = Sink(broker, topic(2))
    system = KafkaSystem(broker.address, conf={"transaction.timeout.ms": 1000})
    target = KafkaTarget(settings_text(system.settings), made.target.group, made.target.partitions)

    def slow() -> Iterator[OutputBlock]:
        first, second = made.blocks([b"1"], [b"2"])
        yield first
        only = made.topic, 0
        # The record, and the broker's note that its transaction is aborted.
        wait_until(lambda: target.cluster().offsets.log_ends([only])[only] == 2, "the end of the transaction", 60)
        yield second

    error = error_of(lambda: SinkTask(target, 0, 0).write(slow()), SystemProblem)
    assert_explains(error, "was open for longer than its transaction.timeout.ms", None, "", "start it again")
    assert made.visible == []


def test_an_offset_of_another_program_is_no_marker(sink: Sink) -> None:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": sink.system.settings.servers, "group.id": sink.target.group})
    consumer.commit(offsets=[TopicPartition(sink.topic, 0, 3)], asynchronous=False)
    consumer.close()
    with pytest.raises(SystemProblem, match="an offset that no run of Fluvial has committed"):
        sink.write(0, [b"1"])


def planned(folder: Path, *, age_hours: float) -> Path:
    """A checkpoint whose first batch was planned, and not done."""
    checkpoint = folder / "spark"
    (checkpoint / "offsets").mkdir(parents=True)
    (file := checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    (checkpoint / "commits").mkdir()
    at = time.time() - 3600 * age_hours
    os.utime(file, (at, at))
    return checkpoint


def shared(folder: Path, checkpoint: Path, streams: dict[str, int], tasks: int) -> OutputPartitions:
    return output_partitions(folder / "transactions", streams, tasks, unfinished_batch(checkpoint))


def test_a_batch_that_was_cut_off_is_shared_among_tasks_as_it_was(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, age_hours=1)
    first = shared(tmp_path, checkpoint, {"b": 3}, 2)
    again = shared(tmp_path, checkpoint, {"a": 1, "b": 4}, 8)
    assert again.tasks == 2
    assert [first.of_task(task) for task in range(2)] == [again.of_task(0)[:2], again.of_task(1)[:1]]
    (checkpoint / "commits" / "0").touch()
    assert shared(tmp_path, checkpoint, {"a": 1, "b": 4}, 8).tasks == 8


def test_a_batch_that_was_cut_off_goes_to_the_partitions_that_there_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = planned(tmp_path, age_hours=1)
    shared(tmp_path, checkpoint, {"b": 3}, 2)
    again = shared(tmp_path, checkpoint, {"a": 1, "b": 4}, 2)
    assert again.streams == {"a": 1, "b": 3}
    assert "b: there are more partitions than before batch 0 was cut off" in caplog.text
    assert shared(tmp_path, checkpoint, {"a": 1, "b": 2}, 2).streams == {"a": 1, "b": 2}, "made anew, with fewer"
    (checkpoint / "commits" / "0").touch()
    assert shared(tmp_path, checkpoint, {"a": 1, "b": 4}, 2).streams == {"a": 1, "b": 4}


def test_an_attempt_that_wakes_up_after_a_run_with_other_tasks_has_begun_writes_nothing_twice(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    before = Sink(broker, topic(2), tasks=2)
    checkpoint = planned(tmp_path, age_hours=1)
    target = before.target
    partitions = shared(tmp_path, checkpoint, {before.topic: 2}, 2)
    zombie = target.producer(1)
    zombie.begin()
    zombie.send(before.topic, 1, records([b"2"]))
    SinkTask(target, 0, 0).write(iter(before.blocks([b"1"])))

    after = KafkaTarget(target.settings, target.group, shared(tmp_path, checkpoint, {before.topic: 2}, 1))
    assert after.partitions == partitions
    SinkTask(after, 0, 1, again=True).write(iter(before.blocks([], [b"2"])))
    with pytest.raises(SystemProblem, match="taken over"):
        zombie.commit()
    zombie.close()
    SinkTask(after, 0, 0, again=True).write(iter(before.blocks([b"1"])))
    SinkTask(target, 0, 1).write(iter(before.blocks([], [b"2"])))  # one that begins only now
    assert before.visible == [b"1", b"2"]


def test_a_batch_whose_markers_kafka_may_have_forgotten_is_refused(sink: Sink, tmp_path: Path) -> None:
    made = TransactionalSink(sink.target, planned(tmp_path, age_hours=30), tmp_path / "counted", 0)
    with pytest.raises(SystemProblem, match="was cut off 30 hours ago, and Kafka has no marker of it"):
        made.check()
    sink.write(0, [b"1"])
    made.check()


@pytest.mark.parametrize("cut_off", [0, None])
def test_a_checkpoint_that_was_put_back_is_refused_before_it_writes(
    sink: Sink, tmp_path: Path, cut_off: int | None
) -> None:
    checkpoint = planned(tmp_path, age_hours=1)
    made = TransactionalSink(sink.target, checkpoint, tmp_path / "counted", cut_off)
    sink.write(0, [b"1"])
    made.check()
    sink.write(1, [], [b"2"])
    error = error_of(made.check, SystemProblem)
    assert_explains(error, "has come to batch 0, but", None, "a checkpoint that is as new as its outputs", "put back")
    assert f"{sink.topic} [1] has the outputs of batch 1 already" in str(error)


def test_a_check_at_the_start_does_not_wait_for_what_a_run_before_has_open(sink: Sink, tmp_path: Path) -> None:
    zombie = sink.target.producer(0)
    zombie.begin()
    zombie.send(sink.topic, 0, records([b"1"]))
    zombie.mark(sink.target.markers(), {(sink.topic, 0): BatchMarker(0, 1)})
    began = time.monotonic()
    TransactionalSink(sink.target, planned(tmp_path, age_hours=1), tmp_path / "counted", 0).check()
    assert time.monotonic() - began < 5
    zombie.close()


@pytest.mark.parametrize("on", ["true", "True"])
@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_speculation_is_refused_where_each_output_is_to_be_seen_once(
    guarantee: Guarantee, on: str, tmp_path: Path
) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    planned = plan(pipeline, partitions={"in": 1})
    buckets = KeyBuckets(1)
    found = levels(planned, list(planned.stages), 1)
    shipped = pack(PlanBundle(planned, found, buckets, Size(1, 1)))
    query = QueryPlan(planned, found, buckets, shipped, tmp_path, "p@1", ("in",), {}, guarantee == "exactly_once")
    context = SimpleNamespace(getConf=lambda: {"spark.speculation": on}, defaultParallelism=2)
    session: Any = SimpleNamespace(sparkContext=context)
    connection = KafkaConnection(KafkaSystem("localhost:1"))
    if guarantee == "at_least_once":
        assert isinstance(connection.sink(query, session), CountingSink)
        return
    with pytest.raises(UsageError) as raised:
        connection.sink(query, session)
    assert_explains(raised.value, "spark.speculation is on", None, "a task that runs once at a time", "at_least_once")

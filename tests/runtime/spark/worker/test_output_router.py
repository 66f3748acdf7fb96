"""Where the outputs of a stage go in a Spark task: to rows, and to sinks, which are flushed before they hold much."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engines import spark_in_process
from fluvial.dsl import Message, Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.output_buffer import HAND_OVER_COUNT
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.output_routes import MOST_IN_SINKS
from fluvial.runtime.spark.batch_times import BatchTimes
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import components, levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack, unpack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.rows import Messages, Row, encode, messages_of
from fluvial.runtime.spark.worker.control_rows import end_rows
from fluvial.runtime.spark.worker.inbox import Inbox
from fluvial.runtime.spark.worker.keyed_level import ROW_BYTES, LevelTask
from fluvial.runtime.spark.worker.output_router import RowRouter
from fluvial.runtime.spark.worker.outputs import Output, RowOutputs, as_rows
from fluvial.runtime.spark.worker.task_sinks import TaskSinks
from fluvial.runtime.systems.contract import RecordBatch


class Holding:
    """A sink that holds messages until it is flushed, and the most that it held. It counts how often it was opened."""

    opened = 0

    def open(self) -> None:
        self.held = self.most = 0
        self.opened += 1

    def write(self, messages: Sequence[Message[int]]) -> None:
        self.held += len(messages)
        self.most = max(self.most, self.held)

    def flush(self) -> None:
        self.held = 0

    def close(self) -> None:
        """Nothing to close."""


def shipped_with(name: str, *sinks: Holding) -> ShippedPlan:
    """The plan of a pipeline with sinks `held-0`, `held-1` ..."""
    pipeline = Pipeline(name)
    numbers = pipeline.stream("in", value=int)
    for number, sink in enumerate(sinks):
        numbers.sink(sink, id=f"held-{number}")
    made = plan(pipeline, partitions={"in": 1})
    (stages,) = components(made)
    return replace(pack(PlanBundle(made, levels(made, stages, 1), KeyBuckets(1), Size(2, 1), {})), run=name)


def sink_of(shipped: ShippedPlan) -> Any:
    """The first sink of a plan, as this process has it."""
    return unpack(shipped)[0].plan.pipeline.sinks[0].sink


class Routing:
    """What routes the messages of one task of a plan."""

    def __init__(self, shipped: ShippedPlan, stack: ExitStack) -> None:
        stage, sinks = unpack(shipped)[0].plan.stages[0].id, TaskSinks(shipped, stack)
        self.route, self.flush = RowRouter(shipped, stage, 0, 0, as_rows, sinks).route, sinks.flush


@contextmanager
def routing(shipped: ShippedPlan) -> Iterator[Routing]:
    with ExitStack() as stack:
        yield Routing(shipped, stack)


MESSAGES = [Message(None, 1, 0, ())] * (MOST_IN_SINKS // 2)


def test_sinks_are_flushed_before_they_hold_much() -> None:
    shipped = shipped_with("flushed", Holding())
    with routing(shipped) as router:
        for _ in range(5):
            router.route("held-0", MESSAGES, [])
    sink = sink_of(shipped)
    assert (sink.most, sink.held) == (MOST_IN_SINKS, MOST_IN_SINKS // 2)


def fail_with(shipped: ShippedPlan) -> None:
    """Fail in a task whose sink was written to."""
    with routing(shipped) as router:
        router.route("held-0", MESSAGES, [])
        raise ValueError("of the task")


def test_a_sink_stays_open_for_the_next_task_and_is_opened_anew_after_one_that_failed() -> None:
    both = Holding()
    shipped = shipped_with("opened", both, both)
    for _ in range(2):
        with routing(shipped) as router:
            router.route("held-0", MESSAGES, [])
            router.route("held-1", MESSAGES, [])
            router.flush()
    sink = sink_of(shipped)
    assert sink.opened == 1
    with pytest.raises(ValueError, match="of the task"):
        fail_with(shipped)
    with routing(shipped) as router:
        router.route("held-0", MESSAGES, [])
    assert (sink.opened, sink.held) == (2, len(MESSAGES))


class Unclosed(Holding):
    """A sink that does not close."""

    def close(self) -> None:
        raise OSError("gone")


def test_a_sink_that_does_not_close_hides_no_error_of_its_task(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="of the task"):
        fail_with(shipped_with("unclosed", Unclosed()))
    assert "failed in close(): OSError: gone" in caplog.text


def test_what_fires_becomes_rows_in_pieces() -> None:
    pipeline, keys = Pipeline("p"), 3 * HAND_OVER_COUNT
    counted = pipeline.stream("in", key=str, value=int).window(tumbling(timedelta(seconds=1)), count(), id="w")
    counted.map(lambda pane: pane.key).send_to("out")
    (query,) = spark_in_process.queries(plan(pipeline, partitions={"in": 1}))
    records: list[Record] = [(b"%05d" % key, b"1", 0, ()) for key in range(keys)]
    query.batch([RecordBatch("in", 0, range(keys), records)])
    taken: list[int] = []

    class Taken(RowOutputs):
        def __call__(self) -> nullcontext[Output]:
            return nullcontext(self.take)

        @staticmethod
        def take(messages: Messages, stage: int, label: int) -> Iterable[Row]:
            assert (stage, label) >= (1, 0)
            taken.append(len(messages.positions))
            return ()

    with LevelTask(query.shipped, 1, BatchTimes(), 0, Taken()) as task:
        for level, label, block in end_rows(query.shipped):
            bucket = query.buckets.of_label[label]
            with Inbox([block]) as inbox:
                deque(task.process(bucket, inbox, query.state[level, bucket]), maxlen=0)
    assert sum(taken) == keys
    assert max(taken) <= HAND_OVER_COUNT


def test_the_rows_of_a_bucket_leave_before_its_last_message_is_processed() -> None:
    pipeline, messages, size = Pipeline("p"), 50, 1 << 20
    firsts = pipeline.stream("in", key=str, value=str).deduplicate(within=timedelta(seconds=1), by=str, id="firsts")
    firsts.map(lambda text: text * size).send_to("out")
    (query,) = spark_in_process.queries(plan(pipeline, partitions={"in": 1}), buckets=1)
    blocks = [
        encode(messages_of("in", 0, [number], [(b"k", b"%c" % (number + 35), 0, ())])) for number in range(messages)
    ]
    with LevelTask(query.shipped, 1, BatchTimes(), 0) as task, Inbox(blocks) as inbox:
        pieces = [sum(len(block) for _, _, block in rows) for rows in task.process(0, inbox, query.state[1, 0]) if rows]
    assert sum(pieces) >= messages * size
    assert len(pieces) > messages * size // (ROW_BYTES + 2 * size)
    assert max(pieces) <= ROW_BYTES + 2 * size

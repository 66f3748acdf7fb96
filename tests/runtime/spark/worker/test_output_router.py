"""Where the outputs of a stage go in a Spark task: to rows, and to sinks, which are flushed before they hold much."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import timedelta

from engines import spark_in_process
from fluvial.dsl import Message, Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.output_buffer import HAND_OVER_COUNT
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.output_routes import MOST_IN_SINKS
from fluvial.runtime.spark.lowering.lowering import components, levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle
from fluvial.runtime.spark.rows import Messages, Row
from fluvial.runtime.spark.worker.keyed_level import process_bucket
from fluvial.runtime.spark.worker.output_router import RowRouter
from fluvial.runtime.spark.worker.outputs import as_rows
from fluvial.runtime.spark.worker.source_level import end_of_input_rows
from fluvial.runtime.systems.contract import RecordBatch


class Holding:
    """A sink that holds messages until it is flushed, and the most that it held."""

    def open(self) -> None:
        self.held = self.most = 0

    def write(self, messages: Sequence[Message[int]]) -> None:
        self.held += len(messages)
        self.most = max(self.most, self.held)

    def flush(self) -> None:
        self.held = 0

    def close(self) -> None:
        """Nothing to close."""


def test_sinks_are_flushed_before_they_hold_much() -> None:
    pipeline, sink = Pipeline("p"), Holding()
    pipeline.stream("in", value=int).sink(sink, id="held")
    made = plan(pipeline, partitions={"in": 1})
    (stages,) = components(made)
    bundle = PlanBundle(made, levels(made, stages, 1), 1, Size(2, 1), {})
    with ExitStack() as stack:
        router = RowRouter(bundle, made.stages[0].id, 0, 0, as_rows, stack)
        for _ in range(5):
            router.route("held", [Message(None, 1, 0, ())] * (MOST_IN_SINKS // 2), [])
    assert (sink.most, sink.held) == (MOST_IN_SINKS, MOST_IN_SINKS // 2)


def test_what_fires_becomes_rows_in_pieces() -> None:
    pipeline, keys = Pipeline("p"), 3 * HAND_OVER_COUNT
    counted = pipeline.stream("in", key=str, value=int).window(tumbling(timedelta(seconds=1)), count(), id="w")
    counted.map(lambda pane: pane.key).send_to("out")
    (query,) = spark_in_process.queries(plan(pipeline, partitions={"in": 1}))
    records: list[Record] = [(b"%05d" % key, b"1", 0, ()) for key in range(keys)]
    query.batch([RecordBatch("in", 0, range(keys), records)])
    taken: list[int] = []

    def take(messages: Messages, bucket: int) -> Iterable[Row]:
        assert bucket >= 0
        taken.append(len(messages.positions))
        return ()

    for level, bucket, block in end_of_input_rows(query.shipped):
        process_bucket(query.shipped, level, bucket, [block], query.state[level, bucket], take)
    assert sum(taken) == keys
    assert max(taken) <= HAND_OVER_COUNT

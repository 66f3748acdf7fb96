"""Where outputs go: both engines ask the same routes."""

from collections.abc import Sequence
from datetime import timedelta

from fluvial.dsl import Message, Pipeline, Sink, count, dead_letter, tumbling
from fluvial.planner import plan
from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS
from fluvial.runtime.output_routes import OutputRoute, OutputRoutes


class Nowhere(Sink[object]):
    """Drops everything."""

    def open(self) -> None:
        """Nothing to open."""

    def write(self, messages: Sequence[Message[object]]) -> None:
        """Nothing to write."""

    def flush(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        """Nothing to close."""


def test_each_operator_that_writes_has_a_route() -> None:
    pipeline, sink = Pipeline("p", on_error=dead_letter()), Nowhere()
    words = pipeline.stream("in", value=str)
    keyed = words.partition_by(str, id="by-word", key_type=str)
    words.broadcast(id="all").send_to("copies")
    words.send_to("out")
    words.sink(sink, id="nowhere")
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="window", late_to="late").send_to("counts")
    made = plan(pipeline, partitions={"in": 3, "out": 2})
    routes = OutputRoutes(made, "in")
    assert routes["by-word"] == OutputRoute("p-by-word", 3, is_border=True)
    assert routes["all"] == OutputRoute("p-all", 1, to_all=True, is_border=True)
    assert routes["send_to-5"] == OutputRoute("out", 2)
    assert routes["nowhere"] == OutputRoute("nowhere", sink=sink)
    assert routes[DEAD_LETTERS] == OutputRoute("p-dead-letters", 1)
    assert (routes.sinks, list(routes.borders)) == ([sink], ["by-word", "all"])
    assert OutputRoutes(made, "p-by-word")["window"] == OutputRoute("late", 3)


def test_messages_without_key_keep_the_order_of_their_task_and_cross_a_border_together() -> None:
    assert [OutputRoute("out", 3).keyless_partition(task) for task in (0, 1, 4)] == [0, 1, 1]
    assert [OutputRoute("p-by-word", 3, is_border=True).keyless_partition(task) for task in (0, 1, 4)] == [0, 0, 0]


def test_what_goes_each_way_is_counted() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    routes = OutputRoutes(plan(pipeline), "in")
    for messages in (2, 3):
        routes.count(routes["send_to-2"], messages)
    assert routes.written == {"out": 5}

"""The graph of a stage: who follows whom, whose messages are tracked, and which watermark nodes there are."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import program_of
from fluvial.dsl import KeyedStream, Pipeline, count, tumbling
from fluvial.runtime.kernel.code.stage_graph import StageGraph
from fluvial.runtime.kernel.time.watermark_node import WatermarkNode

TEN = tumbling(timedelta(milliseconds=10))


async def call(value: int) -> list[int]:
    return [value]


def keyed(pipeline: Pipeline, stream: str = "in") -> KeyedStream[str, int]:
    return pipeline.stream(stream, value=int, key=str)


def shape_of(pipeline: Pipeline, stage: int = 0) -> StageGraph:
    return program_of(pipeline, stage).graph


def nodes(graph: StageGraph) -> list[tuple[Any, ...]]:
    return [dataclasses.astuple(node)[:3] for node in graph.nodes]


def test_time_passes_windows_and_meets_at_merges() -> None:
    pipeline = Pipeline("p")
    panes = keyed(pipeline).window(TEN, count(), id="window").map(str)
    panes.merge(pipeline.stream("other", value=int).map(str)).send_to("out")
    graph = shape_of(pipeline)
    assert graph.nodes == [
        WatermarkNode("stream", (), "in"),
        WatermarkNode("stream", (), "other"),
        WatermarkNode("stateful", (0,), "window"),
        WatermarkNode("merge", (1, 2), "merge-6"),
    ]
    assert graph.node_out == {"in": 0, "other": 1, "window": 2}
    assert [graph.node_in[id] for id in ("window", "map-3", "merge-6", "send_to-7")] == [0, 2, 3, 3]


def test_a_merge_of_two_ways_from_one_input_needs_no_meeting() -> None:
    pipeline = Pipeline("p")
    source = keyed(pipeline)
    source.map(str).merge(source.map(str)).send_to("out")
    assert nodes(shape_of(pipeline)) == [("stream", (), "in")]


def test_asynchronous_work_holds_time_behind_inputs_and_windows() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(call, id="call").window(TEN, count(), id="window").send_to("out")
    graph = shape_of(pipeline)
    assert graph.tracked == {"in", "window"}
    assert nodes(graph) == [
        ("stream", (), "in"),
        ("in-flight", (0,), "in"),
        ("stateful", (1,), "window"),
        ("in-flight", (2,), "window"),
    ]
    assert (graph.node_in["call"], graph.node_in["window"], graph.node_in["send_to-4"]) == (1, 1, 3)


def test_a_stage_reads_what_another_wrote() -> None:
    pipeline = Pipeline("p")
    crossed = keyed(pipeline).map(abs).partition_by(str, id="by", key_type=str, value=int)
    crossed.map(str).send_to("out")
    crossed.window(TEN, count(), id="window").send_to("panes")
    before, after = shape_of(pipeline, 0), shape_of(pipeline, 1)
    assert (before.followers["map-2"], before.followers["by"]) == (("by",), ())
    entry = after.inputs["p-by"]
    assert (entry.clock, entry.source, entry.writer, entry.readers) == ("trailer", None, "by", ("map-4", "window"))


def test_the_way_of_a_message_ends_at_windows_calls_and_borders() -> None:
    pipeline = Pipeline("p")
    source = keyed(pipeline)
    source.map(str).send_to("out")
    source.window(TEN, count(), id="window").map(str).send_to("panes")
    source.partition_by(str, id="by", key_type=str, value=int).map(str).send_to("far")
    graph = shape_of(pipeline)
    assert {*graph.operators_from("in")} == {"map-2", "send_to-3", "window", "by"}
    assert {*graph.operators_from("window")} == {"map-5", "send_to-6"}


def two_windows(pipeline: Pipeline) -> None:
    first = keyed(pipeline).window(TEN, count(), id="first")
    first.map(lambda pane: pane.value).window(TEN, count(), id="second").send_to("out")


@pytest.mark.parametrize(
    ("write", "exact"),
    [
        (lambda p: keyed(p).window(TEN, count(), id="window").map(str).send_to("out"), False),
        (lambda p: keyed(p).window(TEN, count(), id="window", lateness=timedelta(1)).send_to("out"), True),
        (lambda p: keyed(p).merge(keyed(p, "other")).window(TEN, count(), id="window").send_to("out"), True),
        (lambda p: keyed(p).merge(keyed(p, "other")).send_to("out"), False),
        (
            lambda p: (
                keyed(p)
                .async_flat_map(call, id="call")
                .partition_by(str, id="by", key_type=str, value=int)
                .send_to("out")
            ),
            True,
        ),
        (lambda p: keyed(p).async_flat_map(call, id="call").send_to("out"), False),
        (two_windows, True),
    ],
)
def test_each_step_of_time_counts_where_something_looks_at_it_between_firings(write: Any, exact: bool) -> None:
    pipeline = Pipeline("p")
    write(pipeline)
    assert shape_of(pipeline).exact == exact


def copied(numbers: KeyedStream[str, int]) -> None:
    numbers.send_to("copy")


def called_again(numbers: KeyedStream[str, int]) -> None:
    numbers.async_flat_map(call, id="more").send_to("more")


def behind_a_window(numbers: KeyedStream[str, int]) -> None:
    numbers.window(TEN, count(), id="window").send_to("panes")


@pytest.mark.parametrize(
    ("beside", "breaks"), [(None, False), (copied, True), (called_again, True), (behind_a_window, True)]
)
def test_order_of_calls_is_broken_by_what_stands_beside_them(
    beside: Callable[[KeyedStream[str, int]], None] | None, breaks: bool
) -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(call, id="call").send_to("out")
    if beside is not None:
        beside(numbers)
    assert shape_of(pipeline).breaks_order is breaks


def test_what_only_another_input_reaches_breaks_no_order() -> None:
    pipeline = Pipeline("p")
    calls = keyed(pipeline).async_flat_map(call, id="call").map(str)
    calls.merge(keyed(pipeline, "other").map(str)).send_to("out")
    assert not shape_of(pipeline).breaks_order


def test_what_is_reached_without_a_window_is_told_from_what_is_behind_it() -> None:
    pipeline = Pipeline("p")
    source = keyed(pipeline)
    source.async_flat_map(call, id="near").send_to("near")
    source.window(TEN, count(), id="window").map(id).async_flat_map(call, id="far").send_to("far")
    graph = shape_of(pipeline)
    assert {"near", "window"} <= graph.reached_before("in", {"window"})
    assert "far" not in graph.reached_before("in", {"window"})
    assert {"near", "window", "far"} <= graph.reached_before("in", ())

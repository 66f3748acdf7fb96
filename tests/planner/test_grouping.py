"""How the partitions of a stage's inputs are grouped into tasks: by their number, or each by itself."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, PlanError, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.planner.grouping import OnlyInput, only_input
from fluvial.planner.growths import grown, partitions_read
from fluvial.planner.plan import Plan

APART = Settings(group_by="stream-partition")
COUNTS = {"a": 3, "b": 2}


def merging() -> Pipeline:
    pipeline = Pipeline("p")
    first, second = (pipeline.stream(name, key=str, value=int) for name in COUNTS)
    first.merge(second).map(abs).send_to("out")
    return pipeline


def places(planned: Plan, stage: str = "a") -> list[list[str]]:
    """The partitions that each task of a stage reads."""
    numbers = range(planned.stage(stage).tasks)
    return [[f"{one}/{at}" for one, at in partitions_read(planned, stage, number).values()] for number in numbers]


def test_a_task_reads_one_partition_of_one_stream() -> None:
    assert places(plan(merging(), partitions=COUNTS)) == [["a/0", "b/0"], ["a/1", "b/1"], ["a/2"]]
    apart = plan(merging(), partitions=COUNTS, settings=APART)
    assert places(apart) == [["a/0"], ["a/1"], ["a/2"], ["b/0"], ["b/1"]]
    assert (apart.stage("a").group_by, apart.stream("out").partitions) == ("stream-partition", 5)


def test_a_checkpoint_says_what_its_task_reads_alone() -> None:
    apart = plan(merging(), partitions=COUNTS, settings=APART)
    assert [only_input(apart, "a", number) for number in (2, 3)] == [OnlyInput("a", 2, 3), OnlyInput("b", 0, 2)]
    assert only_input(plan(merging(), partitions=COUNTS), "a", 2) is None


def test_partitions_that_a_stream_has_got_are_of_the_tasks_of_before() -> None:
    planned = grown(plan(merging(), partitions=COUNTS, settings=APART), {"a": 6, "b": 3})
    assert places(planned) == [["a/0", "a/3"], ["a/1", "a/4"], ["a/2", "a/5"], ["b/0", "b/2"], ["b/1"]]


def test_what_is_broadcast_reaches_every_task() -> None:
    pipeline = merging()
    rules = pipeline.stream("rules", value=int).broadcast(id="all")
    pipeline.stream("a2", value=int).merge(pipeline.stream("b2", value=int), rules).send_to("out2")
    planned = plan(pipeline, partitions={**COUNTS, "a2": 2, "b2": 1}, settings=APART)
    everywhere = "p-all"
    assert planned.stream(everywhere).partitions == 3
    assert places(planned, "a2") == [
        ["a2/0", f"{everywhere}/0"],
        ["a2/1", f"{everywhere}/1"],
        ["b2/0", f"{everywhere}/2"],
    ]


def test_one_stream_alone_is_grouped_as_ever() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("a", value=int).send_to("out")
    assert plan(pipeline, partitions={"a": 3}, settings=APART) == plan(pipeline, partitions={"a": 3})


def counting(pipeline: Pipeline) -> None:
    both = pipeline.stream("a", key=str, value=int).merge(pipeline.stream("b", key=str, value=int))
    both.window(tumbling(timedelta(minutes=1)), count(), id="n").map(lambda pane: pane.value).send_to("out")


def looking_up(pipeline: Pipeline) -> None:
    rows = pipeline.table("rows", key=str, value=int)
    both = pipeline.stream("a", key=str, value=int).merge(pipeline.stream("b", key=str, value=int))
    both.join(rows, max, id="known").send_to("out")


def beginning_with(pipeline: Pipeline) -> None:
    first = pipeline.stream("a", key=str, value=int, bootstrap=True)
    first.merge(pipeline.stream("b", key=str, value=int)).send_to("out")


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (counting, "window n keeps state by key"),
        (looking_up, "needs the rows of a table"),
        (beginning_with, "is to be read before the other streams"),
    ],
)
def test_a_stage_whose_messages_meet_stays_grouped_by_partition(write: "object", reason: str) -> None:
    pipeline = Pipeline("p")
    assert callable(write)
    write(pipeline)
    assert plan(pipeline, settings=APART) == plan(pipeline)
    with pytest.raises(PlanError, match=f"group_by='stream-partition' for stage '.*', and .*{reason}"):
        plan(pipeline, settings=Settings(group_by={plan(pipeline).stages[0].id: "stream-partition"}))


def test_some_stages_are_grouped_so_by_id() -> None:
    pipeline = merging()
    pipeline.stream("c", value=int).merge(pipeline.stream("d", value=int)).send_to("out")
    groupings = {
        stage.id: stage.group_by
        for stage in plan(pipeline, settings=Settings(group_by={"c": "stream-partition"})).stages
    }
    assert groupings == {"a": "partition", "c": "stream-partition"}
    with pytest.raises(PlanError, match=r"group_by names 'b'\n(.*\n)*.*'a', 'c'"):
        plan(pipeline, settings=Settings(group_by={"b": "stream-partition"}))


def test_what_is_behind_a_border_is_grouped_so_too() -> None:
    pipeline = Pipeline("p")
    moved = pipeline.stream("a", value=int).partition_by(str, id="by-text", key_type=str)
    moved.merge(pipeline.stream("b", key=str, value=int)).send_to("out")
    planned = plan(pipeline, partitions=COUNTS, settings=APART)
    assert [places(planned, stage.id) for stage in planned.stages] == [
        [["a/0"], ["a/1"], ["a/2"]],
        [["b/0"], ["b/1"], ["p-by-text/0"], ["p-by-text/1"], ["p-by-text/2"]],
    ]

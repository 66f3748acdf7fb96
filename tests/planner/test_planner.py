"""From a pipeline to a plan: what operators, stages, streams and stores the plan names."""

from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, UsageError, count, dead_letter, tumbling
from fluvial.planner import Plan, Settings, plan
from fluvial.planner.planner import plan_on

HOUR = timedelta(hours=1)


def visits() -> Pipeline:
    """Two stages: a function before a border, a window with late messages behind it."""
    pipeline = Pipeline("p", on_error=dead_letter())
    keyed = pipeline.stream("lines", value=str).map(str.strip).partition_by(str, id="by", key_type=str, value=str)
    keyed.window(tumbling(HOUR), count(), id="n", late_to="late").send_to("counts")
    return pipeline


def made(**settings: Any) -> Plan:
    return plan(visits(), partitions={"lines": 2}, settings=Settings(**settings))


def test_operators_are_planned_with_types_place_and_options() -> None:
    window = made().operator("n")
    assert (window.kind, window.role, window.stage, window.inputs) == ("window", "both", "p-by", ("by",))
    assert (window.key, window.value) == ("str", "Pane[str, int]")
    assert (window.writes, window.details["windows"]) == (("late",), "tumbling 1 h")
    assert window.file.endswith("test_planner.py")


def test_a_stage_reads_and_writes_streams_as_one_task_for_each_partition() -> None:
    first, second = made().stages
    assert (first.operators, first.inputs, first.outputs) == (("stream-1", "map-2", "by"), ("lines",), ("p-by",))
    assert (second.operators, second.inputs, second.outputs) == (("n", "send_to-5"), ("p-by",), ("late", "counts"))
    assert (first.tasks, second.tasks) == (2, 2)


def test_a_stage_has_as_many_tasks_as_its_widest_input_partitions() -> None:
    pipeline = Pipeline("p")
    few, many = (pipeline.stream(name, value=str) for name in ("few", "many"))
    few.merge(many).send_to("out")
    assert [stage.tasks for stage in plan(pipeline, partitions={"few": 2, "many": 5}).stages] == [5]


def test_each_stream_has_its_kind_and_types() -> None:
    shown = [(stream.name, stream.kind, stream.key, stream.value) for stream in made().streams]
    assert shown == [
        ("lines", "source", None, "str"),
        ("p-by", "intermediate", "str", "str"),
        ("late", "late", "str", "str"),
        ("counts", "output", "str", "Pane[str, int]"),
        ("p-dead-letters", "dead-letters", None, "bytes"),
    ]


def test_a_stream_knows_who_writes_and_reads_it() -> None:
    border = made().stream("p-by")
    assert (border.written_by, border.read_by) == (("by",), ("n",))
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    for stream in words.split(str.isalpha):
        stream.send_to("out")
    out = plan(pipeline).stream("out")
    assert (len(out.written_by), out.read_by) == (2, ())


def test_an_output_is_as_wide_as_the_tasks_that_write_it_unless_a_setting_says_otherwise() -> None:
    assert made().stream("counts").partitions == 2
    assert made(output_partitions=7).stream("counts").partitions == 7
    assert (
        plan(visits(), partitions={"counts": 3}, settings=Settings(output_partitions=7)).stream("counts").partitions
        == 3
    )


def test_a_store_has_its_types_and_the_facts_that_give_it_meaning() -> None:
    (store,) = made().stores
    assert (store.operator, store.stage, store.changelog) == ("n", "p-by", "p-n-changelog")
    assert (store.key, store.value, store.schema.kind) == ("str", "int", "window")
    assert store.schema.facts["windows"] == "tumbling 1 h"
    assert [made().stores[0].schema.facts[name] for name in store.schema.facts if "2" in store.schema.facts[name]] == [
        "2"
    ]


def test_a_pipeline_that_does_not_end_has_no_plan() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).map(str.upper)
    assert_explains(
        error_of(lambda: plan(pipeline), PlanError),
        "nothing reads what map(upper) emits",
        None,
        "a terminal operator",
        ".send_to(...)",
    )


@pytest.mark.parametrize("partitions", [{}, {"lines": 6}])
def test_the_same_pipeline_has_the_same_plan(partitions: dict[str, int]) -> None:
    pipeline = visits()
    assert plan(pipeline, partitions=partitions) == plan(pipeline, partitions=partitions)


def test_the_graph_of_a_plan_names_the_streams_that_operators_reach_each_other_by() -> None:
    graph = made().graph
    assert graph.nodes["n"]["operator"] == made().operator("n")
    edges: list[tuple[str, str, str | None]] = [*graph.edges(data="stream")]
    assert {(one, other): stream for one, other, stream in edges} == {
        ("stream-1", "map-2"): None,
        ("map-2", "by"): None,
        ("by", "n"): "p-by",
        ("n", "send_to-5"): None,
    }


@pytest.mark.parametrize("name", ["operator", "stage", "stream"])
def test_what_a_plan_does_not_have_is_not_found(name: str) -> None:
    raised = error_of(lambda: getattr(made(), name)("nowhere"), PlanError)
    assert_explains(raised, f"the plan of 'p' has no {name} 'nowhere'", None, "one of ", "correct the name")


def test_a_plan_is_not_read_back_for_another_pipeline() -> None:
    other = Pipeline("p")
    other.stream("lines", value=str).send_to("counts")
    raised = error_of(lambda: Plan.from_json(made().to_json(), other), PlanError)
    assert_explains(raised, "does not fit pipeline 'p'", None, "the same operators", "plan the pipeline again")


def test_partition_counts_are_of_streams_of_the_pipeline() -> None:
    place: Any = lambda: plan(visits(), partitions={"lines": 2, "linse": 4})  # noqa: E731
    error = error_of(place, UsageError)
    assert_explains(error, "partitions= names 'linse'", place, "streams of the pipeline: 'lines'", "correct the name")


def test_a_system_may_have_other_streams_too() -> None:
    assert plan_on(visits(), {"lines": 2, "others": 4}).streams == plan(visits(), partitions={"lines": 2}).streams

"""Names of stages, and what of a plan people are shown."""

from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Plan, draw, plan
from fluvial.planner.shown_operators import in_sight

DAY = timedelta(days=1)


def joined() -> Pipeline:
    """A stage that reads a border which was written first, and a source, which is the first operator of the stage."""
    pipeline = Pipeline("p")
    orders = pipeline.stream("orders", value=str).partition_by(str, id="by-order")
    payments = pipeline.stream("payments", key=str, value=str)
    orders.merge(payments).window(tumbling(DAY), count(), id="n").send_to("out")
    return pipeline


def split() -> Pipeline:
    pipeline = Pipeline("p")
    first, _, rest = pipeline.stream("in", value=str).split(str.isalpha, str.isdigit)
    first.send_to("letters")
    rest.send_to("others")
    return pipeline


def test_a_stage_is_named_after_the_input_that_was_written_first() -> None:
    assert [stage.name for stage in plan(joined()).stages] == ["orders", "p-by-order"]


def test_what_tasks_go_by_stays_as_it_was() -> None:
    made = plan(joined())
    assert [stage.id for stage in made.stages] == ["orders", "payments"]
    assert [(store.operator, store.stage) for store in made.stores] == [("n", "payments")]


@pytest.mark.parametrize("format", ["text", "mermaid", "dot", "svg"])
@pytest.mark.parametrize("view", ["operators", "stages"])
def test_drawings_call_stages_by_their_names(format: Any, view: Any) -> None:
    drawn = draw(plan(joined()), format, view=view)
    assert "stage p-by-order" in drawn
    assert "stage payments" not in drawn


def test_a_stage_of_a_table_is_named_after_what_was_written_first() -> None:
    pipeline = Pipeline("p")
    logins = pipeline.stream("logins", key=str, value=str)
    names = pipeline.table("names", key=str, value=str)
    logins.join(names, lambda login, name: f"{login} {name}", id="j").send_to("out")
    assert [stage.name for stage in plan(pipeline).stages] == ["logins"]


def test_a_plan_of_before_stages_had_names_calls_them_by_their_ids() -> None:
    pipeline = joined()
    old = plan(pipeline).to_json().replace('"name": "p-by-order"', '"name": ""')
    assert [stage.name for stage in Plan.from_json(old, pipeline).stages] == ["orders", "payments"]


@pytest.mark.parametrize("format", ["text", "mermaid", "dot", "svg", "html"])
def test_a_branch_that_nobody_reads_is_not_drawn(format: Any) -> None:
    drawn = draw(plan(split()), format)
    assert [f"branch({place}" in drawn for place in (1, 2, 3)] == [True, False, True]


def test_a_branch_that_nobody_reads_is_in_the_plan_and_out_of_sight() -> None:
    made = plan(split())
    assert {operator.id for operator in made.operators} - {operator.id for operator in in_sight(made)} == {"branch-4"}
    assert draw(made, view="stages").count("6 operators") == 1

"""Plans with tables: stages, counts of partitions, stores, and what has no plan."""

from collections.abc import Callable
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError
from fluvial.planner import draw, plan


def both(left: str, right: str | None) -> str:
    return f"{left}{right}"


def looked_up() -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=str)
    pipeline.stream("in", key=str, value=str).join(table, both, id="join").send_to("out")
    return pipeline


def looping() -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.table("latest", key=str, value=str)
    joined = pipeline.stream("in", key=str, value=str).join(table, both, id="join", how="left")
    joined.send_to(table)
    joined.send_to("out")
    return pipeline


def test_all_that_use_a_table_share_its_stage() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=str)
    for name in ("a", "b"):
        pipeline.stream(name, key=str, value=str).join(table, both, id=f"join-{name}").send_to(f"out-{name}")
    made = plan(pipeline, partitions=dict.fromkeys(("users", "a", "b"), 3))
    assert [(stage.inputs, stage.tasks) for stage in made.stages] == [(("users", "a", "b"), 3)]


def test_a_table_has_a_store_and_shows_it() -> None:
    made = plan(looked_up())
    store = made.stores[0]
    assert (store.operator, store.key, store.value, store.changelog) == ("users", "str", "str", "p-users-changelog")
    assert (made.operator("join").label, made.operator("join").inputs) == ("join join", ("stream-3", "users"))


def test_a_filled_table_is_no_stream_of_the_plan() -> None:
    made = plan(looping())
    assert {stream.name for stream in made.streams} == {"in", "out"}
    assert [operator.fills for operator in made.operators if operator.fills] == ["latest"]


@pytest.mark.parametrize("format", ["text", "mermaid", "dot", "svg", "html"])
@pytest.mark.parametrize("make", [looked_up, looping])
def test_every_drawing_shows_a_table(make: Callable[[], Pipeline], format: Any) -> None:
    shown = draw(plan(make()), format)
    assert all(word in shown for word in ("table", "join join", "send_to out"))


def test_the_streams_of_tables_do_not_count_for_those_between_stages() -> None:
    pipeline = looked_up()
    pipeline.stream("few", value=str).partition_by(str, id="by", key_type=str).send_to("sorted")
    made = plan(pipeline, partitions={"users": 9, "in": 9, "few": 2})
    assert made.stream("p-by").partitions == 9  # for "in" has as many
    lone = Pipeline("q")
    lone.table("users", key=str, value=str).changes().send_to("changes")
    lone.stream("few", value=str).partition_by(str, id="by", key_type=str).send_to("sorted")
    assert plan(lone, partitions={"users": 9, "few": 2}).stream("q-by").partitions == 2


def test_streams_that_fill_a_table_are_as_wide_as_those_that_look_it_up() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("latest", key=str, value=str)
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to(table)
    pipeline.stream("asked", key=str, value=str).join(table, both, id="join").send_to("out")
    assert plan(pipeline, partitions={"in": 2, "asked": 5}).stream("p-by").partitions == 5


def unused() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.table("users", key=str, value=str)
    return pipeline


def other_keys() -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=int, value=str)
    mixed: Any = pipeline.stream("in", key=str, value=str)
    mixed.join(table, both, id="join").send_to("out")
    return pipeline


def tables_of_other_keys() -> Pipeline:
    pipeline = Pipeline("p")
    other: Any = pipeline.table("users", key=int, value=str)
    pipeline.table("towns", key=str, value=str).join(other, both, id="join").changes().send_to("out")
    return pipeline


def rows_of_no_type() -> Pipeline:
    pipeline = Pipeline("p")
    users, towns = (pipeline.table(name, key=str, value=str) for name in ("users", "towns"))
    users.join(towns, lambda user, _: user, id="join").changes().send_to("out")
    return pipeline


def put_other_keys() -> Pipeline:
    pipeline = Pipeline("p")
    mixed: Any = pipeline.stream("in", key=int, value=str)
    mixed.send_to(pipeline.table("users", key=str, value=str))
    return pipeline


def length(text: str) -> int:
    return len(text)


def put_other_rows() -> Pipeline:
    pipeline = Pipeline("p")
    mixed: Any = pipeline.stream("in", key=str, value=str).map(length)
    mixed.send_to(pipeline.table("users", key=str, value=str))
    return pipeline


def changes_of_a_filled_table() -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.table("latest", key=str, value=str)
    pipeline.stream("in", key=str, value=str).send_to(table)
    table.changes().send_to("out")
    return pipeline


def written_by_name() -> Pipeline:
    pipeline = looked_up()
    pipeline.stream("more", key=str, value=str).send_to("users")
    return pipeline


CASES = [
    (unused, "nobody uses the table 'users'", "a table that is looked up"),
    (other_keys, "join 'join' of a stream and a table with keys of type str and int", "keys of one type"),
    (tables_of_other_keys, "join 'join' of tables with keys of type str and int", "keys of one type"),
    (rows_of_no_type, "join 'join' keeps rows whose type is not known", "a type to decode kept rows with"),
    (put_other_keys, "send_to table 'users' of messages with keys of type int", "keys of the table's type, str"),
    (put_other_rows, "send_to table 'users' of values of type int", "rows of the table's type, str"),
    (changes_of_a_filled_table, "send_to 'send_to-5' follows the changes of table 'latest'", "read from a stream"),
    (written_by_name, "writes the stream 'users', which the pipeline reads", "streams that are read or written"),
]


@pytest.mark.parametrize(("make", "wrong", "expected"), CASES, ids=[case[0].__name__ for case in CASES])
def test_what_has_no_plan_says_why(make: Callable[[], Pipeline], wrong: str, expected: str) -> None:
    assert_explains(error_of(lambda: plan(make()), PlanError), wrong, None, expected)


@pytest.mark.parametrize("value", [dict[str, int], int])
def test_values_that_may_be_of_the_tables_type_are_let_through(value: Any) -> None:
    pipeline = Pipeline("p")
    wanted: Any = dict[str, float] if value is not int else float
    pipeline.stream("in", key=str, value=value).send_to(pipeline.table("users", key=str, value=wanted))
    assert plan(pipeline).operator("users").kind == "table"

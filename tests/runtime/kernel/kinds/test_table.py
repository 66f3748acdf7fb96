"""Tables, compiled: what fills them, what of them is emitted, and messages without key."""

from typing import Any

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline
from fluvial.runtime.kernel.operators.tables import TableOperator
from fluvial.runtime.kernel.stage import StageTask


def rows(task: StageTask) -> dict[bytes, Any]:
    table = task.stateful["rows"]
    assert isinstance(table, TableOperator)
    return dict(table.rows())


def looked_up(pipeline: Pipeline) -> Any:
    table = pipeline.table("rows", key=str, value=int)
    pipeline.stream("in", key=str, value=int).join(table, lambda one, row: one + row, id="join").send_to("out")
    return table


def test_the_stream_of_a_table_sets_and_deletes_rows() -> None:
    pipeline = Pipeline("p")
    looked_up(pipeline)
    task = task_of(pipeline)
    feed(task, "rows", (b"a", b"1", 0, ()), (b"b", b"2", 0, ()), (b"a", b"3", 0, ()), (b"b", None, 0, ()))
    assert rows(task) == {b"a": 3}


def test_a_message_without_key_is_counted_and_left_out() -> None:
    pipeline = Pipeline("p")
    looked_up(pipeline)
    task = task_of(pipeline)
    feed(task, "rows", (None, b"1", 0, ()))
    assert (rows(task), task.counts.keyless) == ({}, {"rows": 1})


def test_a_stream_of_the_pipeline_fills_a_table() -> None:
    pipeline = Pipeline("p")
    table = looked_up(pipeline)
    pipeline.stream("fill", key=str, value=int).send_to(table)
    task = task_of(pipeline)
    feed(task, "fill", (b"a", b"1", 0, ()))
    assert rows(task) == {b"a": 1}
    (records,) = feed(task, "in", (b"a", b"5", 0, ())).values()
    assert records == [(b"a", b"6", 0, ())]


def test_changes_are_the_messages_of_the_table() -> None:
    pipeline = Pipeline("p")
    pipeline.table("rows", key=str, value=int).changes().send_to("out")
    made = feed(task_of(pipeline), "rows", (b"a", b"1", 7, ()), (b"a", None, 8, ()))
    assert [record[:3] for records in made.values() for record in records] == [(b"a", b"1", 7), (b"a", None, 8)]

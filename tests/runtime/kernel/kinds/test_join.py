"""Joins, compiled: which operator runs, and what a stage emits for rows of both sides."""

from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel.operators.interval_join import JoinOperator
from fluvial.runtime.kernel.operators.latest_join import LatestJoinOperator
from fluvial.runtime.kernel.stage import StageTask

TEN = timedelta(milliseconds=10)


def text(left: Any, right: Any) -> str:
    return f"{left}/{right}"


def streams(**options: Any) -> StageTask:
    pipeline = Pipeline("p")
    left, right = (pipeline.stream(name, key=str, value=int) for name in ("left", "right"))
    rules: dict[str, Any] = {"id": "join", "within": TEN, **options}
    left.join(right, text, **rules).send_to("out")
    return task_of(pipeline)


def tables(how: Any, **options: Any) -> StageTask:
    pipeline = Pipeline("p")
    rows = pipeline.table("rows", key=str, value=int)
    pipeline.stream("in", key=str, value=int).join(rows, text, id="join", how=how, **options).send_to("out")
    return task_of(pipeline)


def row(value: int, time: int = 0, key: bytes | None = b"k") -> Any:
    return (key, b"%d" % value, time, ())


def values(made: dict[str, list[Any]]) -> list[bytes]:
    return [record[1] for records in made.values() for record in records]


@pytest.mark.parametrize(("retain", "operator"), [("all", JoinOperator), ("latest", LatestJoinOperator)])
def test_rows_are_kept_as_retain_says(retain: str, operator: type) -> None:
    task = streams(retain=retain)
    assert type(task.stateful["join"]) is operator
    feed(task, "left", row(1))
    assert values(feed(task, "right", row(2, 5))) == [b"1/2"]


@pytest.mark.parametrize(("how", "alone"), [("inner", []), ("left", [b"1/None"]), ("outer", [b"1/None", b"None/2"])])
def test_rows_that_joined_none_are_emitted_as_how_says(how: str, alone: list[bytes]) -> None:
    task = streams(how=how)
    made = values(feed(task, "left", row(1)))
    made += values(feed(task, "right", row(2, 50)))
    for stream in ("left", "right"):
        made += values(feed(task, stream, row(9, 100, b"other")))
    assert sorted(value for value in made if b"9" not in value) == alone


@pytest.mark.parametrize(("how", "without"), [("inner", []), ("left", [b"1/None"])])
def test_a_stream_looks_up_the_row_that_the_table_has_now(how: str, without: list[bytes]) -> None:
    task = tables(how)
    assert values(feed(task, "in", row(1))) == without
    feed(task, "rows", row(7))
    assert values(feed(task, "in", row(1))) == [b"1/7"]
    feed(task, "rows", (b"k", None, 0, ()))
    assert values(feed(task, "in", row(1))) == without


def test_joined_tables_emit_a_change_of_either() -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=int) for name in ("left", "right"))
    left.join(right, text, id="both").changes().send_to("out")
    task = task_of(pipeline)
    assert values(feed(task, "left", row(1))) == []
    assert values(feed(task, "right", row(2))) == [b"1/2"]
    assert values(feed(task, "left", row(3))) == [b"3/2"]


def test_rows_whose_function_fails_are_named_as_such() -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.stream(name, key=str, value=int) for name in ("left", "right"))
    left.join(right, lambda one, other: one // other, id="join", within=TEN).send_to("out", value=int)
    task = task_of(pipeline)
    feed(task, "left", row(1))
    with pytest.raises(MessageError, match="the rows of key 'k', joined at time 5"):
        feed(task, "right", row(0, 5))


def test_a_row_behind_the_watermark_of_both_sides_is_counted_as_late() -> None:
    task = streams()
    for stream in ("left", "right"):
        feed(task, stream, row(1, 100))
    assert values(feed(task, "left", row(1, 5))) == []
    assert task.counts.late == {"join": 1}

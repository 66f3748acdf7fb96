"""Deduplication, compiled: what passes a stage, and what `by` must give."""

from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel.stage import StageTask

TEN = timedelta(milliseconds=10)


def task(**options: Any) -> StageTask:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int, out_of_order=TEN).deduplicate(TEN, id="once", **options).send_to("out")
    return task_of(pipeline)


def passed(task: StageTask, *rows: tuple[int, int]) -> list[bytes]:
    made = feed(task, "in", *((b"k", b"%d" % value, time, ()) for value, time in rows))
    return [record[1] for records in made.values() for record in records]


def test_the_first_message_of_a_key_passes() -> None:
    assert passed(task(), (1, 0), (2, 5), (3, 9), (4, 10)) == [b"1", b"4"]


def test_with_by_messages_are_told_apart_by_it_too() -> None:
    assert passed(task(by=lambda it: it % 2, by_type=int), (1, 0), (3, 1), (2, 2), (4, 3)) == [b"1", b"2"]


def test_what_is_behind_by_more_than_within_is_late() -> None:
    made = task()
    assert passed(made, (1, 100)) == [b"1"]
    assert passed(made, (2, 79)) == []
    assert made.counts.late == {"once": 1}


def test_by_must_give_what_its_type_can_hold() -> None:
    wrong: Any = {"by": lambda it: [it], "by_type": int}
    with pytest.raises(MessageError, match="by returned what cannot be encoded as int"):
        passed(task(**wrong), (1, 0))


def test_a_message_without_key_fails() -> None:
    with pytest.raises(MessageError, match="without key"):
        feed(task(), "in", (None, b"1", 0, ()))

"""Borders, compiled: what the next stage is handed, with the watermark behind each value."""

from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline
from fluvial.dsl.errors import MessageError
from fluvial.dsl.serde import key_serde
from fluvial.runtime.kernel.time.border_watermarks import unpack_trailer, without_trailer
from fluvial.runtime.kernel.time.bounds import START


def grouped(fn: Any = lambda word: len(word), key: Any = int) -> Any:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).partition_by(fn, id="by", key_type=key).send_to("out")
    return task_of(pipeline)


def test_a_message_has_its_new_key_and_keeps_all_else() -> None:
    (record,) = feed(grouped(), "in", (b"k", b"word", 5, (("h", b"1"),)))["by"]
    key, value, time, headers = without_trailer(record)
    assert (key, value, time, headers[0]) == (key_serde(int).encode(4), b"word", 5, ("h", b"1"))


def test_none_is_a_key_too() -> None:
    (record,) = feed(grouped(lambda _: None), "in", (b"k", b"word", 5, ()))["by"]
    assert record[0] is None


def test_a_value_that_is_none_stays_none() -> None:
    pipeline = Pipeline("p")
    nones = pipeline.stream("in", key=str, value=str).map(lambda _: None)
    nones.partition_by(lambda _: 1, id="by", key_type=int, value=str | None).send_to("out")  # type: ignore[arg-type]
    (record,) = feed(task_of(pipeline), "in", (b"k", b"word", 5, ()))["by"]
    assert without_trailer(record)[1] in (None, b"null")


def test_records_carry_the_watermark_that_the_messages_before_them_have_reached() -> None:
    task = grouped()
    first, second = feed(task, "in", (b"k", b"a", 5, ()), (b"k", b"b", 9, ()))["by"]
    (third,) = feed(task, "in", (b"k", b"b", 9, ()))["by"]
    marks = [unpack_trailer(record[1][-12:])[1] for record in (first, second, third)]
    assert marks == [START, 5, 9]


def test_a_key_of_another_type_fails() -> None:
    with pytest.raises(MessageError, match="partition_by by failed"):
        feed(grouped(lambda word: word), "in", (b"k", b"word", 5, ()))


def test_a_broadcast_keeps_the_bytes_of_the_key() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).broadcast(id="all").send_to("out")
    (record,) = feed(task_of(pipeline), "in", (b"k", b"word", 5, ()))["all"]
    assert without_trailer(record)[:3] == (b"k", b"word", 5)

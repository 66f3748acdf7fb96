"""Compiled stages: what the code of a stage does to each message, and whom an error is laid to."""

import traceback
from typing import Any

import pytest

from engines.stages import feed, program_of, task_of
from fluvial.dsl import Message, Pipeline, skip
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel.code.source_text import FILE_PREFIX, operator_at
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer
from fluvial.runtime.kernel.time.bounds import EARLIEST, LATEST, START


def code_lines(pipeline: Pipeline) -> int:
    """How many lines the code of the first stage has."""
    return max(
        line or 0
        for code in program_of(pipeline).code.co_consts
        if hasattr(code, "co_lines")
        for _, _, line in code.co_lines()
    )


def tens(value: int) -> list[int]:
    return [value, value * 10]


def later(message: Message[int]) -> Message[int]:
    return Message(message.value, message.value + 1, message.timestamp + 5, (*message.headers, ("n", b"1")))


def test_functions_are_called_in_their_order_for_each_message() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int).flat_map(tens).filter(lambda value: value != 2)
    numbers.map(lambda value: value + 1).send_to("out", value=int)
    records = [(b"a", b"1", 7, (("h", b"x"),)), (None, b"2", 8, ())]
    assert feed(task_of(pipeline), "in", *records) == {
        "send_to-5": [(b"a", b"2", 7, (("h", b"x"),)), (b"a", b"11", 7, (("h", b"x"),)), (None, b"21", 8, ())]
    }


def test_a_function_of_whole_messages_may_change_all_of_them() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int, key=str).map_messages(later).send_to("out", value=int)
    assert feed(task_of(pipeline), "in", (b"a", b"1", 7, ())) == {
        "send_to-3": [(b"\0" * 7 + b"\1", b"2", 12, (("n", b"1"),))]
    }


@pytest.mark.parametrize("time", [EARLIEST - 1, LATEST + 1, "noon", None])
def test_a_whole_message_with_a_time_that_is_none_fails(time: Any) -> None:
    assert made_by(lambda message: Message(message.key, message.value, time)) == ({}, {"map_messages-2": 1})


@pytest.mark.parametrize("headers", [None, ["n", b"1"], (("n", 1),), (("n", "1"),), (("n",),), ((b"n", b"1"),), (1,)])
def test_a_whole_message_with_headers_that_are_none_fails(headers: Any) -> None:
    assert made_by(lambda message: Message(message.key, message.value, 7, headers)) == ({}, {"map_messages-2": 1})


def made_by(fn: Any) -> tuple[Any, dict[str, int]]:
    """What a function of whole messages makes of one, and the failures."""
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int).map_messages(fn).send_to("out", value=int)
    task = task_of(pipeline)
    return feed(task, "in", (b"a", b"1", 7, ())), task.failures.counts


def test_a_message_without_value_has_none() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).map(lambda value: value).send_to("out", value=int)
    assert feed(task_of(pipeline), "in", (b"a", None, 7, ())) == {"send_to-3": [(b"a", None, 7, ())]}


def test_a_record_that_crosses_a_border_carries_the_time_its_task_had() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str).map(str).send_to("out")
    made = feed(task_of(pipeline, producer=3), "in", (b"a", b"1", 7, ()), (b"a", b"2", 9, (("h", b"x"),)))
    assert made == {
        "by": [
            (b"1", b"1" + pack_trailer(3, START), 7, ()),
            (b"2", b"2" + pack_trailer(3, 7), 9, (("h", b"x"),)),
        ]
    }


def test_a_record_from_a_border_tells_time_and_loses_its_stamp() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str).map(str).send_to("out", value=str)
    task = task_of(pipeline, stage=1)
    crossing = (b"1", b"1" + pack_trailer(0, 7), 99, (("h", b"x"),))
    control = control_record(ControlMessage("r" * 32, 0, 0, 1, 8, False), 0)
    assert feed(task, "p-by", crossing) == {"send_to-4": [(b"1", b"1", 99, (("h", b"x"),))]}
    assert task.inputs.watermark() == 7
    assert feed(task, "p-by", control) == {}
    assert task.inputs.watermark() == 8


@pytest.mark.parametrize("time", [EARLIEST - 1, LATEST + 1, "noon", 1.0, True])
def test_a_time_that_is_none_fails_at_its_source(time: Any) -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int, timestamp=lambda _: time).send_to("out")
    task = task_of(pipeline)
    assert feed(task, "in", (b"a", b"1", 7, ())) == {}
    assert (task.failures.counts, task.inputs.watermark()) == ({"stream-1": 1}, START)


def test_a_message_that_fails_at_one_reader_is_sent_to_none() -> None:
    pipeline = Pipeline("p", on_error=skip())
    source = pipeline.stream("in", value=int)
    source.send_to("all", value=int)
    source.map(lambda value: 1 // value).send_to("out", value=int)
    made = feed(task_of(pipeline), "in", *((None, b"%d" % value, 0, ()) for value in (1, 0, 1)))
    assert {id: len(records) for id, records in made.items()} == {"send_to-2": 2, "send_to-4": 2}


def test_what_follows_a_merge_is_written_once() -> None:
    def diamonds(count: int) -> Pipeline:
        pipeline = Pipeline("p")
        stream = pipeline.stream("in", value=int)
        for _ in range(count):
            stream = stream.map(abs).merge(stream.map(abs))
        stream.send_to("out", value=int)
        return pipeline

    two, four, eight = (code_lines(diamonds(count)) for count in (2, 4, 8))
    assert eight - four == 2 * (four - two)


def test_a_traceback_shows_the_line_of_the_operator_that_failed() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).map(abs).map(lambda value: 1 // value).send_to("out")
    with pytest.raises(MessageError, match=r"map\(lambda, test_compiler.py:\d+\) failed") as raised:
        feed(task_of(pipeline), "in", (None, b"0", 0, ()))
    trace = traceback.extract_tb(raised.value.__cause__.__traceback__ if raised.value.__cause__ else None)
    (frame,) = [frame for frame in trace if frame.filename.startswith(FILE_PREFIX)]
    assert frame.lineno is not None
    assert (operator_at(frame.filename, frame.lineno), frame.line) == ("map-3", "v_2 = f_2(v_1)")
    assert operator_at(frame.filename, 1) is None
    assert operator_at("another", 1) is None

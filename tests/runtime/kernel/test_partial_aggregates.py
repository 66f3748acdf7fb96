"""What a border sends in place of messages, and how a window takes it."""

import asyncio
from types import NoneType
from typing import Any, TypedDict

import pytest
from msgspec import Struct

from engines.one_window import ms
from engines.stages import feed, task_of
from fluvial.dsl import ErrorPolicy, Pipeline, aggregate, count, dead_letter, total, tumbling
from fluvial.dsl.message import Record
from fluvial.runtime.kernel.partial_aggregates import MOST_KEY_BYTES, PARTIAL_HEADER, classes_of
from fluvial.runtime.kernel.time.border_watermarks import without_trailer
from fluvial.runtime.testing import PipelineDriver
from generators.tallies import joined, letter, no_tally, number, tallied, told, with_message


def record(value: str, time: int = 0) -> Record:
    return None, value.encode(), time, ()


def sent(pipeline: Pipeline, *records: Record) -> list[Record]:
    """What the border sends, without the watermarks of the records."""
    return [without_trailer(one) for one in feed(task_of(pipeline), "in", *records)["by-letter"]]


def messages_of(one: Record) -> int | None:
    """The number of messages of a partial aggregate; None for a message."""
    return int(one[3][0][1]) if one[3] and one[3][0][0] == PARTIAL_HEADER else None


def test_a_key_costs_a_record_for_each_window() -> None:
    many = [record(f"a{i}", i % 20) for i in range(400)]
    made = sent(tallied("total", out_of_order=20), *many, record("b1", 5))
    assert [(one[0], messages_of(one), one[2]) for one in made] == [(b"a", 200, 9), (b"a", 200, 19), (b"b", 1, 5)]
    assert made[0][1] == b"\xc1%d" % sum(i for i in range(400) if i % 20 < 10)


def test_messages_behind_the_end_of_their_window_travel_alone() -> None:
    made = sent(tallied(out_of_order=0), record("a1", 1), record("a2", 30), record("a3", 2), record("a4", 2))
    assert [messages_of(one) for one in made] == [1, 1, 1, 1]


def test_a_value_that_cannot_be_added_travels_as_it_is() -> None:
    made = sent(tallied("total"), record("a1"), record("a", 1), record("a2", 2))
    assert [(messages_of(one), one[1]) for one in made] == [(2, b"\xc13"), (None, b"a")]


def test_the_order_of_messages_stays_where_it_may_matter() -> None:
    messages = [record("a1", 0), record("a2", 2), record("a3", 0), record("a4", 0)]
    assert [messages_of(one) for one in sent(tallied("tally", "hopping"), *messages)] == [1, 1, 2]
    assert [messages_of(one) for one in sent(tallied("total", "hopping"), *messages)] == [3, 1]
    between = [record("a1", 0), record("a", 0), record("a3", 0)]
    assert [messages_of(one) for one in sent(tallied("tally"), *between)] == [1, None, 1]


def long(value: str) -> str:
    return "k" * number(value)


def test_a_message_with_a_long_key_travels_as_it_is() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(long, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), count(), id="w").send_to("out")
    made = sent(pipeline, record(f"k{MOST_KEY_BYTES}"), record(f"k{MOST_KEY_BYTES + 1}"))
    assert [messages_of(one) for one in made] == [1, None]


class Click(Struct):
    user: str


class Named(TypedDict):
    user: str


@pytest.mark.parametrize(
    ("type_", "classes"),
    [
        (int, {int}),
        (int | None, {int, NoneType}),
        (list[int] | Click, {list, Click}),
        (Named, {dict}),
        (Any, None),
        (int | Any, None),
    ],
)
def test_values_of_which_classes_come_out_as_they_went_in(type_: Any, classes: set[type] | None) -> None:
    assert classes_of(type_) == classes


def one_more(value: str) -> float:
    return number(value) + 1


def test_a_value_of_another_class_travels_as_it_is() -> None:
    pipeline = Pipeline("p")
    mapped = pipeline.stream("in", value=str).map(one_more)
    keyed = mapped.partition_by(str, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), count(), id="w").send_to("out")
    assert [(messages_of(one), one[1]) for one in sent(pipeline, record("a1"))] == [(None, b"2")]


def merged_unluckily(on_error: ErrorPolicy) -> Pipeline:
    pipeline = Pipeline("tallied", on_error=on_error)
    keyed = pipeline.stream("in", value=str).partition_by(letter, id="by-letter", key_type=str)
    tally = aggregate(no_tally, with_message, merge=joined)
    keyed.window(tumbling(ms(10)), tally, id="tally").map(told).send_to("out")
    return pipeline


def test_what_cannot_be_merged_fails_behind_the_border_as_a_message() -> None:
    pipeline = merged_unluckily(dead_letter())
    assert [messages_of(one) for one in sent(pipeline, record("a6"), record("a7"), record("a8"))] == [1, 2]
    with PipelineDriver(pipeline) as driver:
        for value in ("a6", "a7", "a8"):
            driver.send("in", value, timestamp=0)
        driver.end()
        assert driver.read("out")[0].value == "on_time a 0 Tally(first=6, last=8, messages=2)"
        assert driver.report().failed == {"tally": 1}
        assert [letter.value for letter in driver.dead_letters] == [b"\xc1[7,7,1]"]


async def awaited(value: str) -> list[str]:
    await asyncio.sleep(0.001 * number(value))
    return [value]


def test_messages_that_were_in_flight_are_aggregated() -> None:
    pipeline = Pipeline("p")
    called = pipeline.stream("in", value=str, out_of_order=ms(9)).async_flat_map(awaited, id="call")
    keyed = called.partition_by(letter, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), total(number), id="w").map(told).send_to("out")
    with PipelineDriver(pipeline) as driver:
        for value, at in (("a3", 1), ("a1", 2), ("b1", 11), ("a2", 12)):
            driver.records.send("in", [record(value, at)])
        driver.end()
        found = sorted(message.value for message in driver.read("out"))
    assert found == ["on_time a 0 4", "on_time a 10 2", "on_time b 10 1"]


def test_messages_and_partial_aggregates_are_read_whatever_combine_says_now() -> None:
    """A run may leave either in the stream between the stages, and the next one may be told otherwise."""
    for first in (True, False):
        task = task_of(tallied("total", combine=first))
        task.feed("in", 0, range(3), [record("a1"), record("a2"), record("a30", 15)])
        crossing = dict(task.drain_outputs())["by-letter"]
        reader = task_of(tallied("total", combine=not first), stage=1)
        reader.feed("tallied-by-letter", 0, range(len(crossing)), crossing)
        reader.inputs.end("tallied-by-letter")
        ((_, made),) = reader.drain_outputs()
        assert sorted(one[1] for one in made) == [b"on_time a 0 3", b"on_time a 10 30"]


def test_counts_are_of_messages() -> None:
    reader = task_of(tallied("total"), stage=1)
    crossing = feed(task_of(tallied("total")), "in", *[record("a1")] * 5)["by-letter"]
    reader.feed("tallied-by-letter", 0, range(len(crossing)), crossing)
    assert len(crossing) == 1
    assert reader.input_counts["tally"] == 5


def test_late_messages_are_counted_one_by_one() -> None:
    reader = task_of(tallied("total"), stage=1)
    late = [record("a1")] * 5
    crossing = feed(task_of(tallied("total")), "in", *late)["by-letter"]
    later = feed(task_of(tallied("total")), "in", record("b1", 100), record("b1", 200))["by-letter"]
    reader.feed("tallied-by-letter", 0, range(2), later)
    reader.feed("tallied-by-letter", 0, range(2, 3), crossing)
    assert reader.counts.late == {"tally": 5}

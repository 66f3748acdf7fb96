"""What a border sends in place of messages, and how a window takes it."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest
from msgspec import Struct, defstruct

from engines.one_window import ms
from engines.stages import feed, task_of
from fluvial.dsl import ErrorPolicy, Pipeline, Serde, aggregate, count, dead_letter, msgpack, skip, total, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.partial_aggregates import (
    LEAST_LIMIT,
    LONG_TRIAL,
    MOST_BYTES,
    MOST_KEY_BYTES,
    PARTIAL_HEADER,
    partial_decoder,
)
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.border_watermarks import without_trailer
from fluvial.runtime.size_limit import SizeLimit
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver
from generators.tallies import joined, letter, lucky, no_tally, number, tallied, told, with_message


def record(value: str, time: int = 0) -> Record:
    return None, value.encode(), time, ()


def sent(pipeline: Pipeline, *records: Record) -> list[Record]:
    """What the border sends, without the watermarks of the records."""
    return [without_trailer(one) for one in feed(task_of(pipeline), "in", *records)["by-letter"]]


def messages_of(one: Record) -> int | None:
    """The number of messages of a partial aggregate; None for a message."""
    return int(one[3][0][1].split()[1]) if one[3] and one[3][0][0] == PARTIAL_HEADER else None


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


class Named(TypedDict):
    user: str


class Number(Struct):
    n: int


def aggregated(made: Any, value: Any = str, *, fn: Any = None, on_error: ErrorPolicy | None = None) -> Pipeline:
    """Values, mapped by `fn` to the type that is told, by one key."""
    pipeline = Pipeline("tallied", on_error=on_error or dead_letter())
    source = pipeline.stream("in", value=str)
    mapped = source if fn is None else source.map(fn)
    keyed = mapped.partition_by(lambda _: "a", id="by-letter", key_type=str, value=value)
    keyed.window(tumbling(ms(10)), made, id="tally").map(told).send_to("out")
    return pipeline


def outputs(pipeline: Pipeline, *values: str) -> list[Any]:
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [record(value) for value in values])
        driver.end()
        return [message.value for message in driver.read("out")]


def fields_of(value: Named) -> int:
    return len(value)


def test_the_aggregate_is_given_what_comes_out_of_the_border() -> None:
    pipeline = aggregated(total(fields_of), Named, fn=lambda value: {"user": value, "more": 1})
    assert outputs(pipeline, "a1", "a2") == ["on_time a 0 2"]


def spoil(value: Number) -> int:
    value.n += 1000
    return value.n


def as_number(value: str) -> Number:
    return Number(number(value))


def test_the_aggregate_is_given_a_value_of_its_own() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=str).map(as_number)
    numbers.partition_by(lambda _: "a", id="by-letter", key_type=str).window(
        tumbling(ms(10)), total(spoil), id="w"
    ).map(told).send_to("out")
    numbers.map(lambda value: f"{value.n}").send_to("side", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [record("a1"), record("a2")])
        driver.end()
        assert [message.value for message in driver.read("side")] == ["1", "2"]
        assert [message.value for message in driver.read("out")] == ["on_time a 0 2003"]


def not_finite(value: str) -> dict[str, float]:
    return {"x": float(value)}


def test_a_value_that_cannot_be_encoded_fails_as_without() -> None:
    with PipelineDriver(aggregated(count(), dict[str, float], fn=not_finite, on_error=skip())) as driver:
        driver.records.send("in", [record("nan"), record("1")])
        driver.end()
        assert driver.report().failed == {"by-letter": 1}
        assert [message.value for message in driver.read("out")] == ["on_time a 0 1"]


@dataclass
class Best:
    top: int = 0
    n: int = field(default=0, compare=False)


def better(best: Best, value: str) -> Best:
    return Best(max(best.top, number(value)), best.n + 1)


def best_of(one: Best, other: Best) -> Best:
    return Best(max(one.top, other.top), one.n + other.n)


def test_what_equals_the_first_accumulator_by_name_alone_is_merged() -> None:
    with PipelineDriver(aggregated(aggregate(Best, better, merge=best_of))) as driver:
        for value in ("a0", "a0", "a5"):
            driver.records.send("in", [record(value)])
        driver.end()
        assert [message.value for message in driver.read("out")] == ["on_time a 0 Best(top=5, n=3)"]


def no_int(_: int, value: str) -> int:
    return number(value) / 2  # type: ignore[return-value]


def plus(one: int, other: int) -> int:
    return one + other


def test_an_accumulator_of_another_type_than_told_is_none_to_travel() -> None:
    pipeline = aggregated(aggregate(int, no_int, merge=plus))
    assert [messages_of(one) for one in sent(pipeline, record("a1"), record("a2"))] == [None, None]
    assert outputs(pipeline, "a1", "a3") == ["on_time a 0 1.5"]


def added(total: Number, value: str) -> Number:
    return Number(total.n + number(value))


def half_merged(one: Number, other: Number) -> Number:
    one.n += other.n
    if one.n > 5:
        raise ValueError(one.n)
    return one


def test_a_merge_that_fails_half_way_changes_nothing_of_what_is_sent() -> None:
    pipeline = aggregated(aggregate(lambda: Number(0), added, merge=half_merged, type=Number))
    made = sent(pipeline, record("a3"), record("a3"), record("a3"))
    assert [one[1] for one in made] == [b'\xc1{"n":3}'] * 3


def same_number(total: int, value: str) -> int:
    return total + float(number(value))  # type: ignore[return-value]


def test_a_number_that_would_come_back_as_another_does_not_travel() -> None:
    pipeline = aggregated(aggregate(int, same_number, merge=plus))
    assert outputs(pipeline, "a1", "a2") == ["on_time a 0 3.0"]


def from_json(value: str) -> str:
    text: str = json.loads(value)
    return text


def test_a_text_that_cannot_be_encoded_fails_as_without() -> None:
    with PipelineDriver(aggregated(count(), fn=from_json, on_error=skip())) as driver:
        driver.records.send("in", [record('"tea"'), record('"\\ud800"'), record('"th\\u00e9"')])
        driver.end()
        assert driver.report().failed == {"by-letter": 1}
        assert [message.value for message in driver.read("out")] == ["on_time a 0 2"]


def from_digits(value: str) -> int:
    power: int = 10 ** int(value)
    return power


def test_so_does_a_number_of_too_many_digits() -> None:
    with PipelineDriver(aggregated(count(), int, fn=from_digits, on_error=skip())) as driver:
        driver.records.send("in", [record("1"), record("30"), record("5000")])
        driver.end()
        assert driver.report().failed == {"by-letter": 1}
        assert [message.value for message in driver.read("out")] == ["on_time a 0 2"]


def a_byte(_: str) -> str:
    return "ff"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_key_that_is_no_bytes_travels_with_its_message(ordered: bool) -> None:
    encode: Any = bytearray.fromhex
    changeable: Any = Serde("changeable", str, encode, bytes.hex)
    made = aggregate(no_tally, with_message, merge=lucky) if ordered else count()
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(a_byte, id="by-letter", key_type=changeable)
    keyed.window(tumbling(ms(10)), made, id="w").send_to("out")
    assert [messages_of(one) for one in sent(pipeline, record("a1"), record("a2"))] == [None, None]


def test_a_user_s_header_of_that_name_makes_no_partial_aggregate() -> None:
    for headers in (((PARTIAL_HEADER, b"count 9"),), ((PARTIAL_HEADER, b"x"),)):
        with PipelineDriver(aggregated(count(), float, fn=lambda value: float(value))) as driver:
            driver.records.send("in", [(None, b"42", 0, headers), record("1")])
            driver.end()
            assert [message.value for message in driver.read("out")] == ["on_time a 0 2"]


def test_a_partial_aggregate_of_another_kind_is_an_error_of_its_message() -> None:
    crossing = feed(task_of(tallied("total")), "in", record("a1"), record("a2"))["by-letter"]
    reader = task_of(tallied("count"), stage=1)
    reader.feed("tallied-by-letter", 0, range(1), crossing)
    assert reader.failures.counts == {"by-letter": 1}


@pytest.mark.parametrize("value", [bytes, msgpack(str)])
def test_bytes_of_the_user_s_own_travel_alone(value: Any) -> None:
    pipeline = aggregated(count(), value, fn=(lambda text: text.encode()) if value is bytes else None)
    assert "combines for" not in plan(pipeline).operator("by-letter").details


def test_where_keys_seldom_repeat_messages_are_sent_as_they_are() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), count(), id="w").send_to("out")
    task = task_of(pipeline)
    shares = []
    for start in range(0, 40_000, 2000):
        task.feed("in", 0, range(start, start + 2000), [record(f"a{number}") for number in range(start, start + 2000)])
        ((_, made),) = task.drain_outputs()
        shares.append(sum(messages_of(without_trailer(one)) is not None for one in made))
    assert shares[:3] == [2000, 0, 0]
    assert 0 < sum(shares[3:]) <= 4000


def test_a_large_batch_is_judged_before_its_end() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), count(), id="w").send_to("out")
    made = sent(pipeline, *[record(f"a{number}") for number in range(LONG_TRIAL + 100)])
    assert [messages_of(one) for one in made[-100:]] == [None] * 100
    assert [messages_of(one) for one in made[:100]] == [1] * 100


def merged_unluckily(on_error: ErrorPolicy) -> Pipeline:
    pipeline = Pipeline("tallied", on_error=on_error)
    keyed = pipeline.stream("in", value=str).partition_by(letter, id="by-letter", key_type=str)
    tally = aggregate(no_tally, with_message, merge=joined)
    keyed.window(tumbling(ms(10)), tally, id="tally").map(told).send_to("out")
    return pipeline


def test_what_cannot_be_merged_fails_behind_the_border_as_a_message() -> None:
    pipeline = merged_unluckily(dead_letter())
    assert [messages_of(one) for one in sent(pipeline, record("a6"), record("a7"), record("a8"))] == [1, 1, 1]
    with PipelineDriver(pipeline) as driver:
        for value in ("a6", "a7", "a8"):
            driver.send("in", value, timestamp=0)
        driver.end()
        assert driver.read("out")[0].value == "on_time a 0 Tally(first=6, last=8, messages=2)"
        assert driver.report().failed == {"tally": 1}
        assert [letter.value for letter in driver.dead_letters] == [b"\xc1[7,7,1]"]


def awakened(*, combine: bool) -> Pipeline:
    pipeline = Pipeline("p", on_error=dead_letter())
    sleepy = pipeline.stream("sleepy", value=str, idle_after=ms(10))
    keyed = pipeline.stream("in", value=str).merge(sleepy).partition_by(letter, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), total(number), id="w", combine=combine).map(told).send_to("out")
    return pipeline


@pytest.mark.parametrize("last", ["a2", "a"])
def test_what_comes_from_a_source_that_was_idle_is_late_as_without(last: str) -> None:
    """One step of a task feeds both inputs: the watermark goes back between messages that are drained together."""
    found = []
    for combine in (True, False):
        task = task_of(awakened(combine=combine))
        crossing = feed(task, "in", record("y1", 2))["by-letter"]
        for now in (1000, 2000, 3000):
            task.set_clock(now, [])
        task.feed("in", 0, range(3), [record("a1", 1), record("x1", 100), record("x1", 101)])
        crossing += feed(task, "sleepy", record(last, 3))["by-letter"]
        reader = task_of(awakened(combine=combine), stage=1)
        reader.feed("p-by-letter", 0, range(len(crossing)), crossing)
        found.append((dict(reader.drain_outputs()), reader.counts.late, reader.failures.counts))
    assert found[0] == found[1]
    assert found[0][1] == {"w": 1}


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
        reader.inputs.ends.end("tallied-by-letter")
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


def half_of(value: str) -> int:
    return number(value) / 2  # type: ignore[return-value]


def test_a_number_that_is_none_travels_as_the_message() -> None:
    pipeline = aggregated(total(half_of))
    assert [messages_of(one) for one in sent(pipeline, record("a1"), record("a2"))] == [None, None]


def interrupted(_: str) -> int:
    raise KeyboardInterrupt


def test_an_interruption_is_no_error_of_a_message() -> None:
    with pytest.raises(KeyboardInterrupt):
        sent(aggregated(total(interrupted)), record("a1"))


def interrupted_merge(_: int, __: int) -> int:
    raise KeyboardInterrupt


def one_each(total: int, _: str) -> int:
    return total + 1


def test_nor_is_one_as_accumulators_are_merged() -> None:
    with pytest.raises(KeyboardInterrupt):
        sent(aggregated(aggregate(int, one_each, merge=interrupted_merge)), record("a1"), record("a2"))


def test_a_message_that_is_too_large_for_the_stream_fails_as_without() -> None:
    made = plan(aggregated(count(), on_error=skip()))
    limits = {"tallied-by-letter": SizeLimit(LEAST_LIMIT * 2)}
    program = compile_stage(made, "in", {"in": "source"}, trailers=True, limits=limits)
    task = StageTask(program, MemoryStore(), empty=True)
    found = feed(task, "in", record("a" * LEAST_LIMIT * 2), record("a1"))["by-letter"]
    assert [messages_of(without_trailer(one)) for one in found] == [1]
    assert task.failures.counts == {"by-letter": 1}


def test_where_a_stream_takes_small_records_alone_messages_travel_alone() -> None:
    program = compile_stage(
        plan(aggregated(count())),
        "in",
        {"in": "source"},
        trailers=True,
        limits={"tallied-by-letter": SizeLimit(LEAST_LIMIT - 1)},
    )
    found = feed(StageTask(program, MemoryStore(), empty=True), "in", record("a1"), record("a2"))["by-letter"]
    assert [messages_of(without_trailer(one)) for one in found] == [None, None]


@pytest.mark.parametrize(("digits", "expected"), [(40, [None, None]), (9, [1, 1])])
def test_a_long_accumulator_does_not_travel(digits: int, expected: list[int | None]) -> None:
    fields = MOST_BYTES // 40
    wide = defstruct("Wide", [(f"n{index}", int, 0) for index in range(fields)], array_like=True)

    def widened(_: Any, __: str) -> Any:
        return wide(*[10**digits] * fields)

    def all_added(_: Any, __: Any) -> Any:
        return wide(*[10**40] * fields)

    pipeline = aggregated(aggregate(wide, widened, merge=all_added, type=wide))
    assert [messages_of(one) for one in sent(pipeline, record("a1"), record("a2"))] == expected


def test_records_without_watermarks_are_merged_around_a_message_that_travels_alone() -> None:
    program = compile_stage(plan(tallied("total")), "in", {"in": "source"}, trailers=False)
    task = StageTask(program, MemoryStore(), empty=True)
    made = feed(task, "in", record("a1"), record("a"), record("a2"))["by-letter"]
    assert [(messages_of(one), one[1]) for one in made] == [(2, b"\xc13"), (None, b"a")]


def test_records_with_headers_of_the_user_s_are_messages() -> None:
    decoded = partial_decoder(bytes.decode, count(), int, lambda _: None)
    assert decoded(b"tea", (("by", b"ann"),)) == "tea"
    assert decoded(None, (("by", b"ann"),)) is None


def test_a_message_in_flight_that_cannot_be_added_travels_as_it_is() -> None:
    pipeline = Pipeline("p", on_error=skip())
    called = pipeline.stream("in", value=str).async_flat_map(at_once, id="call")
    keyed = called.partition_by(letter, id="by-letter", key_type=str)
    keyed.window(tumbling(ms(10)), total(number), id="w").map(told).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [record("a1"), record("a"), record("a2")])
        driver.end()
        assert [message.value for message in driver.read("out")] == ["on_time a 0 3"]
        assert driver.report().failed == {"w": 1}


async def at_once(value: str) -> list[str]:
    return [value]

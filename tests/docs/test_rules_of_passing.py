"""What the pages of map, filter, flat_map, map_messages and async_flat_map say is so."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fluvial.dsl import KeyedStream, Message, Pipeline, PipelineError, Retry, count, tumbling
from fluvial.runtime.testing import PipelineDriver
from generators.rules import HEADERS, SECOND, Build, at_once, itself, one_way, shown, sleepy

# What all operators share that turn one message into others.

PASSING: dict[str, Build] = {
    "map": lambda stream: stream.map(itself),
    "filter": lambda stream: stream.filter(lambda _: True),
    "flat_map": lambda stream: stream.flat_map(lambda value: [value]),
    "map_messages": lambda stream: stream.map_messages(itself),
    "async_flat_map": lambda stream: stream.async_flat_map(at_once, id="call"),
    "partition_by": lambda stream: stream.partition_by(lambda _: "k", id="by", key_type=str, value=str),
}
passing = pytest.mark.parametrize("build", PASSING.values(), ids=PASSING)


@passing
def test_key_time_and_headers_stay(build: Build) -> None:
    with PipelineDriver(one_way(build)) as driver:
        driver.send("in", "tea", key="k", timestamp=7, headers=HEADERS)
        (found,) = driver.read("out")
    assert (found.key, found.timestamp, found.headers) in (("k", 7, HEADERS), (b"k", 7, HEADERS))


@passing
def test_functions_are_given_none_for_messages_without_value(build: Build) -> None:
    with PipelineDriver(one_way(build)) as driver:
        driver.send("in", None, key="k")
        assert shown(driver) == [None]


@passing
def test_messages_without_key_pass(build: Build) -> None:
    with PipelineDriver(one_way(build)) as driver:
        driver.send("in", "tea")
        assert shown(driver) == ["tea"]


@passing
def test_nothing_is_too_late_for_an_operator_that_keeps_nothing(build: Build) -> None:
    with PipelineDriver(one_way(build)) as driver:
        driver.send("in", "new", key="k", timestamp=1_000_000)
        driver.send("in", "old", key="k", timestamp=1)
        assert (shown(driver), driver.report().late) == (["new", "old"], {})


FAILING: dict[str, Build] = {
    "map": lambda stream: stream.map(len),
    "filter": lambda stream: stream.filter(len),
    "flat_map": lambda stream: stream.flat_map(lambda value: [len(value)]),
    "map_messages": lambda stream: stream.map_messages(lambda message: Message(1.5, message.value, 0)),
    "async_flat_map": lambda stream: stream.async_flat_map(lambda value: at_once(len(value)), id="call"),
    "partition_by": lambda stream: stream.partition_by(len, id="by", key_type=int, value=str),
}


@pytest.mark.parametrize("build", FAILING.values(), ids=FAILING)
def test_an_error_of_the_function_is_one_of_its_message(build: Build) -> None:
    with PipelineDriver(one_way(build)) as driver:
        driver.send("in", None, key="k")
        assert shown(driver) == []
        assert list(driver.report().failed.values()) == [1]


@pytest.mark.parametrize("name", ["map", "filter", "flat_map", "async_flat_map"])
def test_a_keyed_stream_stays_keyed(name: str) -> None:
    source = Pipeline("p").stream("in", value=str, key=str)
    assert isinstance(PASSING[name](source), KeyedStream)


# map, filter, flat_map


def test_a_map_may_return_none() -> None:
    with PipelineDriver(one_way(lambda stream: stream.map(lambda _: None))) as driver:
        driver.send("in", "tea", key="k")
        assert driver.records.read("out") == [(b"k", None, 0, ())]


def test_a_flat_map_that_fails_half_way_gives_nothing() -> None:
    def half(value: str) -> Iterator[str]:
        yield value
        raise ValueError

    with PipelineDriver(one_way(lambda stream: stream.flat_map(half))) as driver:
        driver.send("in", "tea")
        assert (shown(driver), driver.report().failed) == ([], {"flat_map-2": 1})


def test_a_flat_map_must_not_return_none() -> None:
    nothing: Any = lambda _: None  # noqa: E731
    with PipelineDriver(one_way(lambda stream: stream.flat_map(nothing))) as driver:
        driver.send("in", "tea")
        assert driver.report().failed == {"flat_map-2": 1}


def test_a_text_is_an_iterable_of_letters() -> None:
    with PipelineDriver(one_way(lambda stream: stream.flat_map(itself))) as driver:
        driver.send("in", "tea")
        assert shown(driver) == ["t", "e", "a"]


def test_messages_that_a_filter_leaves_out_move_the_watermark() -> None:
    pipeline = Pipeline("p")
    small = pipeline.stream("in", value=int, key=str).filter(lambda number: number < 10)
    small.window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 1, key="k", timestamp=0)
        driver.send("in", 99, key="k", timestamp=1000)
        assert [pane.value for pane in shown(driver)] == [1]


# map_messages


@pytest.mark.parametrize(("key", "given"), [(str, "k"), (None, b"k")])
def test_map_messages_is_given_the_key_as_declared_else_its_bytes(key: Any, given: Any) -> None:
    keys: list[Any] = []

    def note(message: Message[str]) -> Message[str]:
        keys.append(message.key)
        return message

    with PipelineDriver(one_way(lambda stream: stream.map_messages(note), key=key)) as driver:
        driver.send("in", "tea", key="k")
    assert keys == [given]


def test_what_map_messages_gives_is_not_keyed() -> None:
    stream: Any = Pipeline("p").stream("in", value=str, key=str).map_messages(itself)
    with pytest.raises(PipelineError, match="window on a stream without a key"):
        stream.window  # noqa: B018


@pytest.mark.parametrize("wrong", [Message("k", "tea", 1.5), Message("k", "tea", 0, [("a", b"")]), Message([], "", 0)])  # type: ignore[arg-type]
def test_a_time_headers_or_a_key_that_cannot_be_written_are_errors_of_the_message(wrong: Any) -> None:
    with PipelineDriver(one_way(lambda stream: stream.map_messages(lambda _: wrong))) as driver:
        driver.send("in", "tea")
        assert driver.report().failed == {"map_messages-2": 1}


def test_a_time_that_map_messages_gives_moves_no_watermark_and_may_be_too_late() -> None:
    def earlier(message: Message[str]) -> Message[str]:
        return Message(message.key, message.value, message.timestamp - 10_000)

    pipeline = Pipeline("p")
    moved = pipeline.stream("in", value=str).map_messages(earlier)
    keyed = moved.partition_by(lambda _: "k", id="by", key_type=str, value=str)
    keyed.window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for at in (20_000, 20_500):
            driver.send("in", "tea", timestamp=at)
        assert driver.end().late == {"window": 1}


# async_flat_map


def calls(order: Any, sent: Sequence[tuple[str | None, int]]) -> list[int]:
    with PipelineDriver(one_way(lambda s: s.async_flat_map(sleepy, id="call", order=order), value=int)) as driver:
        for key, seconds in sent:
            driver.send("in", seconds, key=key)
        driver.advance(10 * SECOND)
        return shown(driver)


@pytest.mark.parametrize(
    ("order", "expected"), [("key", [1, 5, 2]), ("input", [5, 2, 1]), ("none", [1, 2, 5])], ids=str
)
def test_results_leave_in_the_order_asked_for(order: Any, expected: list[int]) -> None:
    assert calls(order, [("ann", 5), ("ann", 2), ("bob", 1)]) == expected


def test_messages_without_key_are_in_nobodys_order_by_key() -> None:
    assert calls("key", [(None, 5), (None, 2)]) == [2, 5]
    assert calls("input", [(None, 5), (None, 2)]) == [5, 2]


def test_time_behind_calls_waits_for_them() -> None:
    pipeline = Pipeline("p")
    called = pipeline.stream("in", value=int, key=str).async_flat_map(sleepy, id="call", order="none")
    called.window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 5, key="ann", timestamp=0)
        driver.send("in", 0, key="ann", timestamp=9000)
        assert shown(driver) == []
        driver.advance(5 * SECOND)
        assert [pane.value for pane in shown(driver)] == [1]


def test_a_call_has_a_minute() -> None:
    with PipelineDriver(one_way(lambda s: s.async_flat_map(sleepy, id="call"), value=int)) as driver:
        driver.send("in", 100)
        driver.advance(59 * SECOND)
        assert driver.report().failed == {}
        driver.advance(SECOND)
        assert driver.report().failed == {"call": 1}


def test_each_attempt_has_its_own_time() -> None:
    retry = Retry(attempts=2, delay=SECOND)
    build: Build = lambda s: s.async_flat_map(sleepy, id="call", timeout=9 * SECOND, retry=retry)  # noqa: E731
    with PipelineDriver(one_way(build, value=int)) as driver:
        driver.send("in", 100)
        driver.advance(18 * SECOND)
        assert driver.report().failed == {}
        driver.advance(SECOND)
        assert driver.report().failed == {"call": 1}


def test_calls_in_flight_are_begun_again_after_a_crash() -> None:
    with PipelineDriver(one_way(lambda s: s.async_flat_map(sleepy, id="call"), value=int)) as driver:
        driver.send("in", 5)
        driver.crash()
        driver.restart()
        driver.end()
        assert shown(driver) == [5]

"""What stands beside asynchronous calls sees messages in the order in which they came, however the calls end."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from fluvial.dsl import (
    KeyedStream,
    MessageStream,
    Pipeline,
    collect,
    skip,
    tumbling,
)
from fluvial.dsl.operators.calls import Order
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.completion_order import AsyncResults, Ended
from generators.seen_numbers import SeenNumbers

NUMBERS = list(range(8))


async def called(number: int) -> list[int]:
    if number == 5:
        raise ValueError(number)
    return [number]


async def same(number: int) -> list[int]:
    return [number]


async def even_ones(number: int) -> list[int]:
    return [number] if number % 2 == 0 else []


def one_user(number: int) -> str:
    del number
    return "user"


def keyed(pipeline: Pipeline) -> KeyedStream[str, int]:
    return pipeline.stream("in", key=str, value=int)


def send(driver: PipelineDriver, key: str | None) -> None:
    """Send all numbers at once, so that their calls are in flight together."""
    driver.records.send(
        "in", [(None if key is None else key.encode(), b"%d" % number, number, ()) for number in NUMBERS]
    )


def run(pipeline: Pipeline, key: str | None = "k", ends: AsyncResults = "reverse") -> list[object]:
    """What is written to "out", where calls end in this order."""
    with PipelineDriver(pipeline, async_results=ends) as driver:
        send(driver, key)
        driver.end()
        return [message.value for message in driver.read("out")]


@pytest.mark.parametrize("order", ["none", "key", "input"])
def test_a_copy_keeps_the_order_of_its_input(order: Order) -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(even_ones, id="call", order=order).send_to("called")
    numbers.send_to("out")
    assert run(pipeline) == NUMBERS


def test_messages_that_are_not_called_for_stay_behind_those_that_are() -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.filter(lambda number: number % 3 == 0).async_flat_map(even_ones, id="call").send_to("called")
    numbers.send_to("out")
    assert run(pipeline) == NUMBERS


@pytest.mark.parametrize("key", ["k", None])
def test_messages_of_one_key_stay_in_order_behind_a_border(key: str | None) -> None:
    pipeline = Pipeline("p")
    numbers: MessageStream[int] = keyed(pipeline) if key else pipeline.stream("in", value=int)
    numbers.async_flat_map(even_ones, id="call").send_to("called")
    numbers.partition_by(one_user, id="by-user", key_type=str, value=int).send_to("out")
    assert run(pipeline, key=key) == NUMBERS


def test_a_processor_is_given_the_messages_of_a_key_in_the_order_they_come() -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(even_ones, id="call", order="none").send_to("called")
    numbers.process(SeenNumbers(), id="seen").send_to("out")
    assert run(pipeline)[-1] == NUMBERS


def test_a_window_is_given_them_so() -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(even_ones, id="call", order="none").send_to("called")
    windows = numbers.window(tumbling(timedelta(days=1)), collect(), id="all")
    windows.map(lambda pane: pane.value).send_to("out")
    assert run(pipeline) == [NUMBERS]


def test_the_last_row_of_a_table_that_a_stream_fills_is_the_last_that_came() -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(even_ones, id="call", order="none").send_to("called")
    numbers.send_to(pipeline.table("last", key=str, value=int))
    with PipelineDriver(pipeline, async_results="reverse") as driver:
        send(driver, "k")
        driver.end()
        assert driver.state.table("last") == {"k": NUMBERS[-1]}


@pytest.mark.parametrize("order", ["key", "input"])
def test_calls_that_keep_an_order_keep_it_beside_those_that_do_not(order: Order) -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(even_ones, id="one", order=order).send_to("out")
    numbers.map(lambda number: number + 100).async_flat_map(even_ones, id="other", order="none").send_to("called")

    def others_last_and_reversed(calls: Sequence[Ended]) -> int:
        first = [index for index, call in enumerate(calls) if call.value < 100]
        return first[0] if first else len(calls) - 1

    assert run(pipeline, ends=others_last_and_reversed) == [0, 2, 4, 6]


def one_last(calls: Sequence[Ended]) -> int:
    """The call for 1 ends after all others."""
    return next((index for index, call in enumerate(calls) if call.value != 1), 0)


@pytest.mark.parametrize("order", ["key", "input"])
def test_a_message_that_waits_beside_its_call_is_not_overtaken_by_the_next_of_its_order(order: Order) -> None:
    pipeline = Pipeline("p")
    numbers = keyed(pipeline)
    numbers.async_flat_map(same, id="call", order=order).send_to("called")
    numbers.filter(lambda number: number < 3).send_to("out")
    with PipelineDriver(pipeline, async_results=one_last) as driver:
        records = [(b"odd" if number % 2 else b"even", b"%d" % number, number, ()) for number in (1, 2, 4, 6)]
        driver.records.send("in", records)
        driver.end()
        called = [message.value for message in driver.read("called")]
    assert [number for number in called if number != 1] == [2, 4, 6]


def test_a_message_that_fails_leaves_a_place_for_the_next() -> None:
    pipeline = Pipeline("p", on_error=skip())
    numbers = keyed(pipeline)
    numbers.async_flat_map(called, id="call", order="none").send_to("called")
    numbers.send_to("out")
    assert run(pipeline) == [number for number in NUMBERS if number != 5]


def test_results_of_calls_without_order_alone_wait_for_nobody() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(even_ones, id="call", order="none").send_to("out")
    assert run(pipeline) == [6, 4, 2, 0]

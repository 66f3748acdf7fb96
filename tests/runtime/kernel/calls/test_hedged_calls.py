"""Second calls beside those that take long, on virtual time."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import assert_explains, error_of
from fluvial.dsl import Batch, Limit, MessageError, Pipeline, PipelineError, Retry, skip
from fluvial.planner import plan
from fluvial.runtime import call_key, call_keys
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.hedged_calls import HedgedCalls
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.virtual_clock import VirtualLoop

DELAY = 10
"""Seconds before a second call; times of calls are such that no two things happen at once."""
FIRST = st.integers(0, 20).map(lambda number: 2 * number + 1)
SECOND = st.integers(0, 10).map(lambda number: 2 * number)


async def on_virtual_time(calls: HedgedCalls, value: Any) -> tuple[Any, float]:
    """What a call gives or raises, and when it ends."""
    loop = asyncio.get_running_loop()
    try:
        found: Any = await calls(value)
    except ValueError as error:
        found = str(error)
    return found, loop.time()


def run(calls: HedgedCalls, value: Any) -> tuple[Any, float]:
    async def work() -> tuple[Any, float]:
        working = loop.create_task(on_virtual_time(calls, value))
        await loop.quiet()
        while loop.jump():
            await loop.quiet()
        return await working

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


@given(FIRST, st.booleans(), SECOND, st.booleans())
def test_the_first_that_succeeds_counts(first: int, fails: bool, second: int, other_fails: bool) -> None:
    outcomes = [(first, fails, "first"), (second, other_fails, "second")]
    begun: list[str] = []

    async def fn(_: object) -> list[str]:
        seconds, raises, name = outcomes[len(begun)]
        begun.append(name)
        await asyncio.sleep(seconds)
        if raises:
            raise ValueError(name)
        return [name]

    calls = HedgedCalls(fn, DELAY, 5)
    if first < DELAY:
        expected: tuple[Any, float] = ("first" if fails else ["first"], first)
    else:
        ends = sorted([(first, fails, "first"), (DELAY + second, other_fails, "second")])
        good = next(((end, name) for end, raises, name in ends if not raises), None)
        expected = ("first", ends[-1][0]) if good is None else ([good[1]], good[0])
    assert run(calls, None) == expected
    assert calls.count == len(begun) - 1 == int(first > DELAY)


def test_calls_that_ignore_their_cancellation_bound_the_second_calls() -> None:
    begun = count()

    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
                return

    async def fn(_: object) -> list[int]:
        number = next(begun)
        await (stubborn() if number == 0 else asyncio.sleep(30 if number == 2 else 1))
        return [number]

    calls = HedgedCalls(fn, DELAY, 1)

    async def both() -> list[Any]:
        return [await calls(None), await calls(None)]

    loop = VirtualLoop()
    try:

        async def work() -> list[Any]:
            working = loop.create_task(both())
            await loop.quiet()
            while loop.jump():
                await loop.quiet()
            return await working

        assert loop.run_until_complete(work()) == [[1], [2]]
    finally:
        loop.close()
    assert calls.count == 1


def test_calls_that_do_not_heed_their_timeout_are_bounded_as_without_a_second_one() -> None:
    found: list[Call] = []
    second = timedelta(seconds=1)

    async def deaf(_: int) -> list[int]:
        until = loop.time() + 1000
        while (left := until - loop.time()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left)
        return [1]

    async def work() -> None:
        options: Any = {"hedge": second, "timeout": 2 * second, "max_in_flight": 2}
        operator: Any = Pipeline("p").stream("in", value=int).async_flat_map(deaf, id="call", **options).operator
        pool = CallPool(operator, operator.call, found.append)
        for number in range(6):
            pool.submit(Call(None, number, None))
        await loop.quiet()
        while loop.jump():
            await loop.quiet()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    assert [type(call.error) for call in found] == [TimeoutError] * 2 + [MessageError] * 4
    assert "3 calls run on although they were cancelled" in str(found[2].error)


def test_a_pipeline_has_the_faster_result_in_order_and_both_calls_have_one_key() -> None:
    asked: list[tuple[str, str]] = []

    async def fn(word: str) -> list[str]:
        asked.append((word, call_key()))
        again = sum(one == word for one, _ in asked) > 1
        await asyncio.sleep(1 if again or word == "milk" else 60)
        return [word]

    pipeline = Pipeline("p")
    words = pipeline.stream("in", key=str, value=str)
    words.async_flat_map(fn, id="call", hedge=timedelta(seconds=5)).send_to("out")
    assert {one.id: one.details.get("hedge") for one in plan(pipeline).operators}["call"] == "5 s"
    with PipelineDriver(pipeline) as driver:
        for word in ("tea", "milk"):
            driver.send("in", word, key="k")
        driver.advance(timedelta(seconds=5.5))
        assert driver.read("out") == []
        driver.advance(timedelta(seconds=1))
        assert [message.value for message in driver.read("out")] == ["tea", "milk"]
    assert [word for word, _ in asked] == ["tea", "milk", "tea"]
    assert asked[0] == asked[2]


def test_what_has_no_key_says_so_in_the_call_that_asks() -> None:
    async def fn(word: str) -> list[str]:
        return [word, call_key()]

    pipeline = Pipeline("p", on_error=skip())
    words = pipeline.stream("in", value=str).partition_by(lambda word: word, id="by", key_type=str)
    words.async_flat_map(fn, id="call", hedge=timedelta(seconds=5)).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        assert driver.end().failed == {"call": 1}


def test_a_batch_is_hedged_as_a_whole() -> None:
    asked: list[list[str]] = []

    async def fn(words: list[str]) -> list[list[str]]:
        assert len(call_keys()) == len(words)
        asked.append([words.pop() for _ in range(len(words))])
        await asyncio.sleep(60 if len(asked) == 1 else 1)
        return [[word] for word in reversed(asked[-1])]

    pipeline = Pipeline("p")
    options: Any = {"batch": Batch(size=2), "hedge": timedelta(seconds=5), "retry": Retry()}
    pipeline.stream("in", value=str).async_flat_map(fn, id="call", **options).send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        for word in ("tea", "milk"):
            driver.send("in", word)
        driver.advance(timedelta(seconds=6))
        assert [message.value for message in driver.read("out")] == ["tea", "milk"]
    assert len(asked) == 2


async def call(word: str) -> list[str]:
    return [word]


@pytest.mark.parametrize(
    ("options", "wrong", "remedy"),
    [
        ({"hedge": timedelta(minutes=1)}, "and timeout=", "a shorter hedge="),
        ({"hedge": 5}, "hedge is 5", "timedelta"),
        (
            {"hedge": timedelta(seconds=1), "limit": Limit("service", calls=5)},
            "would not count second calls",
            "leave out hedge=",
        ),
    ],
)
def test_a_wrong_argument_is_refused(options: Any, wrong: str, remedy: str) -> None:
    words = Pipeline("p").stream("in", value=str)
    error = error_of(lambda: words.async_flat_map(call, id="call", **options), PipelineError)
    assert_explains(error, wrong, None, "", remedy)

"""A pane that fails is skipped or set aside by itself, with its key and window; or ends the run, naming the lines."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    ErrorPolicy,
    MessageError,
    Pane,
    Pipeline,
    aggregate,
    count,
    dead_letter,
    fail,
    session,
    skip,
    total,
    tumbling,
)
from fluvial.dsl.windows.aggregates import Aggregate
from fluvial.dsl.windows.assigners import Assigner
from fluvial.runtime.testing import PipelineDriver

TEN = tumbling(timedelta(milliseconds=10))
SESSION = session(timedelta(milliseconds=9))
LATENESS = timedelta(milliseconds=100)


def odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def odd_count() -> Aggregate[Any, int]:
    return replace(count(), result=odd)


def value_of(pane: Pane[str, int]) -> int:
    return odd(pane.value)


async def at_once(value: str) -> list[str]:
    return [value]


def counted(on_error: ErrorPolicy, assigner: Assigner = TEN, asynchronous: bool = False, **options: Any) -> Pipeline:
    pipeline = Pipeline("p", on_error=on_error)
    keyed = pipeline.stream("in", value=str, key=str)
    keyed = keyed.async_flat_map(at_once, id="call") if asynchronous else keyed
    keyed.window(assigner, odd_count(), id="w", lateness=LATENESS, **options).send_to("out")
    return pipeline


def send(driver: PipelineDriver, *messages: tuple[str, int]) -> None:
    for key, time in messages:
        driver.send("in", "x", key=key, timestamp=time)


def panes(driver: PipelineDriver) -> list[tuple[str, str, int]]:
    return [(pane.kind, pane.key, pane.value) for pane in (message.value for message in driver.read("out"))]


everywhere = pytest.mark.parametrize(
    ("assigner", "asynchronous"), [(TEN, False), (TEN, True), (SESSION, False), (SESSION, True)]
)


@everywhere
@pytest.mark.parametrize("at_end", [False, True])
def test_a_pane_that_fails_is_skipped_alone(assigner: Assigner, asynchronous: bool, at_end: bool) -> None:
    with PipelineDriver(counted(skip(), assigner, asynchronous)) as driver:
        send(driver, ("a", 0), ("b", 0), ("b", 0), ("c", 0), *([] if at_end else [("d", 50)]))
        if at_end:
            driver.end()
        assert panes(driver) == [("on_time", "a", 1), ("on_time", "c", 1)]
        assert driver.report().failed == {"w": 1}


@everywhere
def test_a_pane_that_fails_is_set_aside_with_its_key_and_window(assigner: Assigner, asynchronous: bool) -> None:
    with PipelineDriver(counted(dead_letter(), assigner, asynchronous)) as driver:
        send(driver, ("a", 0), ("a", 0), ("b", 50))
        (letter,) = driver.dead_letters
    headers = {name: value.decode() for name, value in letter.headers}
    assert (letter.key, letter.value, letter.timestamp) == (b"a", None, 9)
    assert (headers["fluvial-firing"], headers["fluvial-operator"]) == ("w", "w")
    assert (headers["fluvial-window"], headers["fluvial-error"]) == ("[0, 10)", "ValueError: 2 is even")


@everywhere
def test_a_pane_that_fails_ends_the_run_and_names_the_lines(assigner: Assigner, asynchronous: bool) -> None:
    with PipelineDriver(counted(fail(), assigner, asynchronous)) as driver:
        send(driver, ("a", 0), ("a", 0))
        error = error_of(driver.end, MessageError)
    assert_explains(error, "window w failed on the pane of key 'a', window [0, 10): ValueError", counted, "", "", 4)
    assert f"raised at {Path(__file__).parent}" in str(error) or "raised at tests/" in str(error)
    assert "raised at" in str(error)
    assert f"{Path(__file__).name}:{odd.__code__.co_firstlineno + 2}" in str(error).splitlines()[0]


@everywhere
def test_a_late_message_is_in_its_window_though_the_pane_fails(assigner: Assigner, asynchronous: bool) -> None:
    with PipelineDriver(counted(skip(), assigner, asynchronous)) as driver:
        send(driver, ("a", 0), ("b", 50), ("a", 0), ("a", 0))
        assert panes(driver) == [("on_time", "a", 1), ("late", "a", 3)]
        assert driver.report().failed == {"w": 1}


@pytest.mark.parametrize("assigner", [TEN, SESSION])
def test_what_follows_a_pane_fails_as_the_pane(assigner: Assigner) -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(assigner, count(), id="w", lateness=LATENESS).map(value_of).send_to("out")
    with PipelineDriver(pipeline) as driver:
        send(driver, ("a", 0), ("b", 50), ("a", 0))
        assert [message.value for message in driver.read("out")] == [1]
        (letter,) = driver.dead_letters
    assert letter.key == b"a"
    assert ("fluvial-operator", b"map-3") in letter.headers


def begins_with(*values: int) -> Callable[[], int]:
    left = list(reversed(values))
    return lambda: left.pop()


def add(number: int, _: str) -> int:
    return number + 1


@pytest.mark.parametrize("assigner", [TEN, SESSION])
def test_an_accumulator_is_begun_by_the_message_that_needs_it(assigner: Assigner) -> None:
    pipeline = Pipeline("p", on_error=skip())
    keyed = pipeline.stream("in", value=str, key=str)
    begun = aggregate(begins_with(0, 0), add, merge=max)
    keyed.window(assigner, begun, id="w", lateness=LATENESS, accumulate=False).send_to("out")
    with PipelineDriver(pipeline) as driver:
        send(driver, ("a", 0), ("b", 50))
        assert panes(driver) == [("on_time", "a", 1)]
        send(driver, ("a", 0))  # which fails, for there is nothing left to begin with
        assert driver.report().failed == {"w": 1}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("assigner", [TEN, SESSION])
def test_what_was_discarded_does_not_come_back(assigner: Assigner, restarted: bool) -> None:
    with PipelineDriver(counted(skip(), assigner, accumulate=False)) as driver:
        send(driver, ("a", 0), ("b", 50))
        for _ in range(2):
            if restarted:
                driver.restart()
            send(driver, ("a", 0))
        assert panes(driver) == [("on_time", "a", 1), ("late", "a", 1), ("late", "a", 1)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_discarded_comes_back_if_its_message_fails_elsewhere(asynchronous: bool, restarted: bool) -> None:
    pipeline = Pipeline("p", on_error=skip())
    keyed = pipeline.stream("in", value=str, key=str)
    keyed = keyed.async_flat_map(at_once, id="call") if asynchronous else keyed
    keyed.window(TEN, count(), id="w", lateness=LATENESS, accumulate=False).send_to("out")
    keyed.window(TEN, total(int), id="bad", lateness=LATENESS).send_to("other")
    with PipelineDriver(pipeline) as driver:
        for value, time in (("1", 0), ("1", 50), ("bad", 0), ("1", 0)):
            if restarted:
                driver.restart()
            driver.send("in", value, key="a", timestamp=time)
        assert panes(driver) == [("on_time", "a", 1), ("late", "a", 1)]


@pytest.mark.parametrize(("accumulate", "late"), [(True, 2), (False, 1)])
def test_what_an_operator_before_a_window_has_in_flight_waits_while_the_window_fires_in_pieces(
    accumulate: bool, late: int
) -> None:
    async def looked_up(word: str) -> list[str]:
        await asyncio.sleep(1 if word == "slow" else 0)
        return [word]

    async def told(pane: Pane[str, int]) -> list[list[Any]]:
        await asyncio.sleep(1)
        return [[pane.key, pane.kind, pane.value]]

    pipeline, hour = Pipeline("p"), timedelta(hours=1)
    words = pipeline.stream("in", key=str, value=str).deduplicate(hour, by=str.upper, by_type=str, id="once")
    called = words.async_flat_map(looked_up, id="call", order="none")
    counted = called.window(tumbling(timedelta(seconds=10)), count(), id="w", lateness=hour, accumulate=accumulate)
    counted.async_flat_map(told, id="told", max_in_flight=1).send_to("out", key=lambda row: str(row[0]))
    with PipelineDriver(pipeline) as driver:
        for key in "abcdef":
            driver.send("in", "quick", key=key, timestamp=0)
        driver.records.send("in", [(b"z", b"quick", 20_000, ()), (b"f", b"slow", 5_000, ())])
        driver.advance(timedelta(minutes=1))
        rows = [message.value for message in driver.read("out")]
    assert [row for row in rows if row[0] == "f"] == [["f", "on_time", 1], ["f", "late", late]]

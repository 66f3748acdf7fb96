"""Calls of batches in a pipeline: how long messages wait for company, and what becomes of those that fail."""

import asyncio
from datetime import timedelta

from fluvial.dsl import Batch, Pipeline, dead_letter
from fluvial.planner import Settings
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


async def priced(items: list[str]) -> list[list[str] | Exception]:
    await asyncio.sleep(1)
    together = "+".join(items)
    return [LookupError(f"no {item}") if item.startswith("no") else [f"{item} in {together}"] for item in items]


def pricing(delay: timedelta, size: int = 3) -> Pipeline:
    pipeline = Pipeline("prices", on_error=dead_letter())
    items = pipeline.stream("items", value=str)
    items.async_flat_map(priced, id="price", batch=Batch(size=size, delay=delay)).send_to("out", value=str)
    return pipeline


def shown(driver: PipelineDriver) -> list[str]:
    return [message.value for message in driver.read("out")]


def test_messages_wait_for_company_as_long_as_they_may_in_virtual_time() -> None:
    with PipelineDriver(pricing(5 * SECOND)) as driver:
        driver.send("items", "tea")
        driver.advance(3 * SECOND)
        driver.send("items", "milk")
        driver.advance(2 * SECOND)
        assert shown(driver) == []
        driver.advance(SECOND)
        assert shown(driver) == ["tea in tea+milk", "milk in tea+milk"]


def test_at_the_end_of_input_nothing_waits_for_company() -> None:
    with PipelineDriver(pricing(HOUR)) as driver:
        driver.send("items", "tea")
        driver.end()
        assert (shown(driver), driver.now) == (["tea in tea"], 1000)


def test_where_a_commit_waits_for_calls_these_wait_for_no_company() -> None:
    settings = Settings(commit_interval=10 * SECOND, guarantee="exactly_once")
    with PipelineDriver(pricing(HOUR), commits="timed", settings=settings) as driver:
        driver.send("items", "tea")
        driver.advance(9 * SECOND)
        driver.send("items", "milk")
        driver.advance(SECOND)
        assert shown(driver) == []
        driver.advance(SECOND)
        assert shown(driver) == ["tea in tea+milk", "milk in tea+milk"]


def test_a_result_that_is_an_exception_is_the_error_of_its_message_alone() -> None:
    with PipelineDriver(pricing(SECOND)) as driver:
        for item in ("tea", "nothing", "milk"):
            driver.send("items", item)
        driver.advance(SECOND)
        assert [text.split()[0] for text in shown(driver)] == ["tea", "milk"]
        (letter,) = driver.dead_letters
        assert (letter.value, dict(letter.headers)["fluvial-error"]) == (b"nothing", b"LookupError: no nothing")


def test_messages_of_a_batch_that_was_lost_in_a_crash_are_in_one_again() -> None:
    with PipelineDriver(pricing(HOUR)) as driver:
        for item in ("tea", "milk"):
            driver.send("items", item)
        driver.crash()
        driver.restart()
        driver.send("items", "rice")
        driver.advance(SECOND)
        assert shown(driver) == [f"{item} in tea+milk+rice" for item in ("tea", "milk", "rice")]

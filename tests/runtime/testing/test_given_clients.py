"""Clients of a test's own in place of those that a pipeline would open, and those that the driver opens."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Message, NoProgressError, Pipeline, Resource, UsageError, resource
from fluvial.runtime.testing import PipelineDriver


class Prices:
    """A service that is far away; it is opened and closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def open(self) -> None:
        await asyncio.sleep(1)
        self.calls.append("open")

    async def close(self) -> None:
        await asyncio.sleep(1)
        self.calls.append("close")

    async def of(self, item: str) -> int:
        return len(item)


class Fake(Prices):
    """What a test has instead."""

    async def of(self, item: str) -> int:
        del item
        return 250


async def price(item: str, prices: Prices) -> list[int]:
    return [await prices.of(item)]


def pipeline_with(prices: Resource[Any]) -> Pipeline:
    pipeline = Pipeline("p")
    items = pipeline.stream("items", value=str)
    items.async_flat_map(price, id="price", resource=prices).send_to("out", value=int)
    return pipeline


def values(driver: PipelineDriver) -> list[Any]:
    driver.send("items", "tea")
    return [message.value for message in driver.read("out")]


def test_a_given_client_is_used_as_it_is() -> None:
    fake, prices = Fake(), resource(Prices)
    with PipelineDriver(pipeline_with(prices), resources={prices: fake}) as driver:
        assert values(driver) == [250]
    assert fake.calls == []


def test_the_driver_opens_clients_and_closes_them_on_virtual_time() -> None:
    made: list[Prices] = []

    @resource
    def prices() -> Prices:
        made.append(Prices())
        return made[-1]

    with PipelineDriver(pipeline_with(prices)) as driver:
        assert (values(driver), driver.now) == ([3], 1000)
        driver.restart()
        assert values(driver) == [3, 3]
    assert [one.calls for one in made] == [["open", "close"], ["open", "close"]]


def test_a_client_that_waits_for_a_socket_is_told_to_be_given() -> None:
    async def connected() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NoProgressError) as raised:
        PipelineDriver(pipeline_with(resource(connected)))
    assert_explains(
        raised.value, "is not open after", None, "a client that opens", "PipelineDriver(pipeline, resources="
    )


@pytest.mark.parametrize("given", [3, {resource(dict): 3}])
def test_clients_of_no_operator_are_refused(given: Any) -> None:
    pipeline = pipeline_with(resource(Prices))
    error = error_of(lambda: PipelineDriver(pipeline, resources=given), UsageError)
    assert_explains(error, "resources", None, "clients by resource: resource(Prices)", "")


def test_a_pipeline_without_resources_says_so() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    error = error_of(lambda: PipelineDriver(pipeline, resources={resource(dict): 3}), UsageError)
    assert_explains(error, "resource(dict)", None, "the pipeline has none", "leave it out")


def test_time_goes_on_where_a_client_is_closed_while_a_call_is_in_flight() -> None:
    async def slow(item: str, prices: Prices) -> list[int]:
        await asyncio.sleep(30)
        return [await prices.of(item)]

    pipeline = Pipeline("p")
    prices = resource(Prices)
    pipeline.stream("items", value=str).async_flat_map(slow, id="slow", resource=prices).send_to("out", value=int)
    with PipelineDriver(pipeline) as driver:
        driver.send("items", "tea")
        driver.crash()
        driver.restart()
        driver.advance(timedelta(minutes=1))
        assert [message.value for message in driver.read("out")] == [3]


class Unreachable:
    """A sink that waits for what never comes."""

    async def open(self) -> None:
        await asyncio.get_running_loop().create_future()

    def write(self, messages: Sequence[Message[str]]) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_sink_that_waits_for_something_other_than_time_is_reported() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("items", value=str).sink(Unreachable(), id="unreachable")
    error = error_of(lambda: PipelineDriver(pipeline), UsageError)
    assert_explains(error, "cannot happen under virtual time", None, "ends by itself", "a socket, a thread or an event")

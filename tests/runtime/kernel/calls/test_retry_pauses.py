"""Pauses by the clock and the randomness of a loop, and what the calls of a pool make of them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from fluvial.dsl import Batch, Pipeline, Retry, dead_letter
from fluvial.runtime.kernel.calls.retry_pauses import pause_seconds
from fluvial.runtime.process.machine import Machine
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
START = 1_800_000_000_000


class Busy(Exception):
    """A service that asks to be left alone."""

    def __init__(self, after: Any) -> None:
        super().__init__("busy")
        self.after = after


def asked(error: Busy) -> Any:
    return error.after


class Service:
    """Refuses the first calls, and asks for a wait; notes when it was called."""

    def __init__(self, *waits: Any) -> None:
        self.waits = [*waits]
        self.called: list[float] = []

    async def price(self, item: str) -> list[str]:
        self.called.append(asyncio.get_running_loop().time())
        if self.waits:
            raise Busy(self.waits.pop(0))
        return [item]

    async def prices(self, items: list[str]) -> list[list[str]]:
        return [await self.price(item) for item in items]


def shown(call: Callable[..., Any], retry: Retry, **options: Any) -> list[str]:
    pipeline = Pipeline("p", on_error=dead_letter())
    items = pipeline.stream("items", value=str)
    items.async_flat_map(call, id="call", retry=retry, timeout=2 * SECOND, **options).send_to("out", value=str)
    with PipelineDriver(pipeline, start=START) as driver:
        driver.send("items", "tea")
        driver.end()
        found = [message.value for message in driver.read("out")]
        return found + [dict(letter.headers)["fluvial-error"].decode() for letter in driver.dead_letters]


def test_a_call_is_made_again_when_the_service_asks_and_the_wait_is_no_part_of_its_timeout() -> None:
    service = Service(20, "5", format_datetime(datetime.fromtimestamp(START / 1000 + 32, UTC), usegmt=True))
    assert shown(service.price, Retry(attempts=4, after=asked)) == ["tea"]
    assert service.called == [0.0, 20.0, 25.0, 32.0]


def test_a_batch_is_made_again_when_the_service_asks() -> None:
    service = Service(20)
    assert shown(service.prices, Retry(after=asked), batch=Batch(size=5)) == ["tea"]
    assert service.called == [0.0, 20.0]


def test_a_function_that_fails_ends_the_attempts_of_its_call() -> None:
    service = Service("tea", [])
    assert shown(service.price, Retry(after=lambda error: error.missing)) == [
        "AttributeError: 'Busy' object has no attribute 'missing'"
    ]
    assert service.called == [0.0]


def test_a_remote_table_is_left_alone_for_as_long_as_it_asks() -> None:
    service = Service(20)

    async def read(key: str) -> str:
        return (await service.price(key))[0]

    pipeline = Pipeline("p")
    table = pipeline.remote_table("table", read=read, retry=Retry(after=asked))
    pipeline.stream("in", key=str, value=str).join(table, lambda _, row: row, id="row").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "x", key="tea")
        driver.end()
        assert [message.value for message in driver.read("out")] == ["tea"]
    assert service.called == [0.0, 20.0]


def test_jitter_spreads_pauses_and_is_the_same_in_each_run() -> None:
    def called() -> list[float]:
        service = Service(*[None] * 4)
        shown(service.price, Retry(attempts=5, delay=SECOND, factor=1.0, jitter=0.5))
        return [later - earlier for earlier, later in zip(service.called, service.called[1:], strict=False)]

    pauses = called()
    assert len(set(pauses)) == 4
    assert all(1.0 <= pause <= 1.5 for pause in pauses)
    assert called() == pauses


def test_a_real_loop_has_the_clock_and_the_randomness_of_the_machine() -> None:
    machine = Machine(wall=lambda: START, random=lambda: 0.5)
    until = datetime.fromtimestamp(START / 1000 + 3, UTC)

    async def pause() -> float:
        return pause_seconds(Retry(after=lambda _: until, jitter=0.5), 1, OSError(), machine)

    assert asyncio.run(pause()) == 3.75

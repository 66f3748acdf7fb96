"""How many calls run at once: as many as the service works on, and soon so where that changes."""

import asyncio
import heapq
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Adaptive, Batch, Pipeline, PipelineError, Retry, dead_letter
from fluvial.runtime.kernel.calls.concurrency import Concurrency, ServiceWindow
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

SECOND = timedelta(seconds=1)


class Simulation:
    """A service that works on so many calls at a time, and a client that makes as many as its window has."""

    def __init__(self, slots: int, takes: float, seed: int = 0, most: int = 400) -> None:
        self.slots, self.takes, self.random = slots, takes, Random(seed)
        self.window = ServiceWindow(1, most)
        self.now, self.done = 0.0, 0
        self.fails = False
        self._queue: list[float] = []
        self._ends: list[tuple[float, float]] = []

    def until(self, end: float) -> int:
        """Go on to a time; returns how many calls have ended."""
        before = self.done
        while self.now < end:
            while len(self._queue) + len(self._ends) < int(self.window.size):
                self._queue.append(self.now)
                self.window.begin(self.now, len(self._queue) + len(self._ends))
            while self._queue and len(self._ends) < self.slots:
                took = self.takes * self.random.uniform(0.8, 1.2)
                heapq.heappush(self._ends, (self.now + took, self._queue.pop(0)))
            self.now, began = heapq.heappop(self._ends)
            self.done += 1
            self.window.end(began, self.now, failed=self.fails)
        return self.done - before

    def is_settled(self, seconds: float = 5.0) -> bool:
        """Whether from now on the service does nearly all that it can, and calls wait in it for less than they take."""
        can = self.slots / self.takes * seconds
        done = self.until(self.now + seconds)
        return done >= 0.85 * can and self.window.size <= 2 * self.slots + 8


@settings(max_examples=examples(200, least=10), deadline=None)
@given(st.integers(6, 100), st.floats(0.02, 0.3), st.integers(0, 99))
def test_it_settles_within_ten_seconds_also_where_the_capacity_halves_or_is_back(
    slots: int, takes: float, seed: int
) -> None:
    service = Simulation(slots, takes, seed)
    service.until(10)
    assert service.is_settled()
    service.slots = slots // 2
    service.until(service.now + 10)
    assert service.is_settled()
    service.slots = slots
    service.until(service.now + 10)
    assert service.is_settled()


def test_a_service_that_becomes_slower_keeps_its_slots_at_work() -> None:
    service = Simulation(40, 0.1)
    service.until(20)
    service.takes = 0.2
    service.until(45)
    assert service.is_settled()


def test_it_does_not_creep_up_in_the_long_run() -> None:
    service = Simulation(30, 0.05)
    service.until(200)
    assert service.window.size <= 50


def test_failures_shrink_it_to_the_least() -> None:
    service = Simulation(50, 0.1)
    service.until(5)
    service.fails = True
    service.until(15)
    assert service.window.size <= 2


def test_it_does_not_grow_where_there_is_not_enough_to_do() -> None:
    window, now = ServiceWindow(1, 100), 0.0
    for _ in range(1000):
        window.begin(now, 3)
        window.end(now, now + 0.1, failed=False)
        now += 0.1
    assert window.size <= 10


def test_calls_wait_for_their_turn_and_one_that_is_cancelled_takes_no_place() -> None:
    async def main() -> None:
        concurrency = Concurrency(Adaptive(), 2)
        await concurrency.enter()
        await concurrency.enter()
        loop = asyncio.get_running_loop()
        first, second, third = (loop.create_task(concurrency.enter()) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        concurrency.leave(concurrency.begin(), failed=False)
        second.cancel()  # it has a permit by now
        await asyncio.sleep(0)
        await third
        assert concurrency.running == 2
        concurrency.close()
        assert concurrency.running == 0

    asyncio.run(main())


class Slow:
    """A service that works on two calls at a time, each for a tenth of a second; the first of all takes a minute."""

    def __init__(self) -> None:
        self.at_once = self.most = 0
        self.slots = asyncio.Semaphore(2)

    async def ask(self, value: int) -> list[int]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        async with self.slots:
            await asyncio.sleep(0.1)
        self.at_once -= 1
        return [value]

    async def each(self, values: list[int]) -> list[list[int]]:
        return [await self.ask(value) for value in values]

    async def fail(self, value: int) -> list[int]:
        raise OSError(value)


def _driver(fn: Any, **options: Any) -> PipelineDriver:
    pipeline = Pipeline("adaptive", on_error=dead_letter())
    calls = pipeline.stream("numbers", value=int).async_flat_map(fn, id="ask", concurrency=Adaptive(), **options)
    calls.send_to("answers", value=int)
    return PipelineDriver(pipeline)


def test_a_pipeline_makes_as_many_calls_as_the_service_works_on() -> None:
    service = Slow()
    with _driver(service.ask, order="input") as driver:
        for number in range(300):
            driver.send("numbers", number)
        driver.advance(5 * SECOND)
        service.most = 0
        driver.advance(5 * SECOND)
        assert service.most <= 10
        driver.advance(30 * SECOND)
        assert len(driver.read("answers")) == 300


def test_batches_and_failures_go_with_it() -> None:
    with _driver(Slow().each, batch=Batch(size=5)) as driver:
        for number in range(20):
            driver.send("numbers", number)
        driver.advance(20 * SECOND)
        assert len(driver.read("answers")) == 20
    with _driver(Slow().fail, retry=Retry(attempts=2)) as driver:
        for number in range(20):
            driver.send("numbers", number)
        driver.advance(20 * SECOND)
        assert len(driver.dead_letters) == 20


async def ask(value: str) -> list[str]:
    return [value]


@pytest.mark.parametrize(("given", "wrong"), [(3, "concurrency=3"), (Adaptive(least=9), "Adaptive\\(least=9\\) and")])
def test_what_is_no_range_is_refused(given: Any, wrong: str) -> None:
    words = Pipeline("p").stream("words", value=str)
    with pytest.raises(PipelineError, match=wrong):
        words.async_flat_map(ask, id="ask", concurrency=given, max_in_flight=5)
    with pytest.raises(PipelineError, match="least=0"):
        Adaptive(least=0)

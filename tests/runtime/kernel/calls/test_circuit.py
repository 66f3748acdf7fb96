"""Circuit breakers: calls of a service that fails are left off, then one tries, and no message is taken meanwhile."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Adaptive, Breaker, Limit, Pipeline, PipelineError, Retry, dead_letter, in_threads
from fluvial.dsl.breaker import checked_breaker
from fluvial.dsl.operators.calls import breakers_of
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.circuit import Circuit
from fluvial.runtime.kernel.calls.concurrency import Concurrency
from fluvial.runtime.kernel.calls.door import Door
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
BREAKER = Breaker("service", failures=3, rest=MINUTE, on=(OSError,))


class Service:
    """Fails while it is down, and notes when it is asked."""

    def __init__(self) -> None:
        self.down = True
        self.asked: list[float] = []

    async def ask(self, value: int) -> list[int]:
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        if value < 0:
            raise ValueError("negative")
        if self.down:
            raise OSError("down")
        return [value]


def _pipeline(service: Service, **options: Any) -> Pipeline:
    pipeline = Pipeline("broken", on_error=dead_letter())
    numbers = pipeline.stream("numbers", value=int)
    calls = numbers.async_flat_map(service.ask, id="ask", breaker=BREAKER, order="none", **options)
    calls.send_to("answers", value=int)
    return pipeline


def _answers(driver: PipelineDriver) -> list[Any]:
    return sorted(message.value for message in driver.read("answers"))


def test_calls_rest_after_failures_in_a_row_and_one_tries_again() -> None:
    service = Service()
    with PipelineDriver(_pipeline(service, max_in_flight=1)) as driver:
        for number in range(10):
            driver.send("numbers", number)
        driver.advance(30 * SECOND)
        assert len(service.asked) == 3
        driver.advance(MINUTE)
        assert len(service.asked) == 4  # it fails, and all rest again
        service.down = False
        driver.advance(MINUTE)
        assert _answers(driver) == [4, 5, 6, 7, 8, 9]
        assert len(driver.dead_letters) == 4


def test_repeats_wait_too_and_it_costs_no_timeout() -> None:
    service = Service()
    retry = Retry(attempts=9, delay=timedelta(0))
    with PipelineDriver(_pipeline(service, retry=retry, timeout=SECOND)) as driver:
        driver.send("numbers", 1)
        driver.advance(30 * SECOND)
        assert len(service.asked) == 3
        service.down = False
        driver.advance(MINUTE)
        assert _answers(driver) == [1]


class WordlessError(Exception):
    """Fails to say anything."""

    def __str__(self) -> str:
        raise LookupError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("\x1b[2Jgone"), "OSError: \\x1b[2Jgone"),
        (WordlessError(), "WordlessError, whose __str__ raises LookupError"),
    ],
)
def test_what_makes_calls_rest_is_reported_and_no_terminal_obeys_it(
    caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    async def ask(_: int) -> list[int]:
        raise error

    pipeline = Pipeline("broken", on_error=dead_letter())
    breaker = Breaker("service", failures=1, rest=MINUTE)
    pipeline.stream("numbers", value=int).async_flat_map(ask, id="ask", breaker=breaker).send_to("answers", value=int)
    with PipelineDriver(pipeline) as driver:
        driver.send("numbers", 1)
        assert len(driver.dead_letters) == 1
    assert caplog.messages[0].endswith(f"the last of them {told}")


def test_other_errors_and_results_end_the_row() -> None:
    service = Service()
    with PipelineDriver(_pipeline(service, max_in_flight=1)) as driver:
        for number in (1, 2, -1, 1, 2, -1, 1, 2):
            driver.send("numbers", number)
        driver.advance(30 * SECOND)
        assert len(service.asked) == 8


def test_a_limit_and_a_breaker_go_together() -> None:
    service = Service()
    limit = Limit("service", calls=6, per=MINUTE)
    with PipelineDriver(_pipeline(service, limit=limit)) as driver:
        for number in range(6):
            driver.send("numbers", number)
        driver.advance(timedelta(seconds=90))
        service.down = False
        driver.advance(3 * MINUTE)
        assert len(driver.dead_letters) <= 5
        assert len(_answers(driver)) + len(driver.dead_letters) == 6


async def _enter(circuit: Circuit) -> bool:
    while (tries := circuit.passes()) is None:
        await circuit.rested()
    return tries


async def _fail(circuit: Circuit, times: int) -> None:
    await circuit.rested()
    for _ in range(times):
        circuit.leave(OSError("down"), tried=await _enter(circuit))


def test_a_call_that_is_given_up_lets_another_try() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=300)))

    async def main() -> None:
        await _fail(circuit, 1)
        assert circuit.room(0) == 0
        tried = await _enter(circuit)
        assert tried
        assert circuit.room(0) == 0  # one tries
        waits = asyncio.get_running_loop().create_task(_enter(circuit))
        await asyncio.sleep(0)
        circuit.leave(None, tried=tried, given_up=True)
        assert await waits
        circuit.leave(None, tried=True)
        assert not circuit.open
        assert circuit.openings == 1

    asyncio.run(main())


def test_a_call_that_is_cancelled_as_it_may_pass_lets_another_pass() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=1)))

    async def main() -> None:
        await _fail(circuit, 1)
        assert await _enter(circuit)
        waits = [asyncio.get_running_loop().create_task(_enter(circuit)) for _ in range(2)]
        await asyncio.sleep(0)
        circuit.leave(None, tried=True, given_up=True)
        waits[0].cancel()
        assert await asyncio.wait_for(waits[1], 60)

    asyncio.run(main())


def test_a_call_that_waits_for_its_limit_holds_no_other_back() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=1)))
    admission = Admission(Limit("slow", calls=1, per=timedelta(hours=1)))
    limited, free = Door(admission, circuit), Door(None, circuit)

    async def main() -> None:
        await _fail(circuit, 1)
        await admission.enter(0)  # that is all of the limit
        waits = asyncio.get_running_loop().create_task(limited.enter(Call(None, 0, None)))
        while not admission.waiting:
            await asyncio.sleep(0.001)
        call = Call(None, 1, None)
        assert await asyncio.wait_for(free.enter(call), 60) is None
        free.leave(call, [1], None)
        assert not circuit.open
        waits.cancel()

    asyncio.run(main())


def test_a_call_that_finds_another_trying_gives_its_part_of_the_limit_back() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=1)))
    admission = Admission(Limit("service", calls=1000))
    door, calls = Door(admission, circuit), [Call(None, number, None) for number in range(2)]

    async def main() -> None:
        await _fail(circuit, 1)
        entered = [asyncio.get_running_loop().create_task(door.enter(call)) for call in calls]
        await asyncio.wait(entered, return_when=asyncio.FIRST_COMPLETED)
        assert admission.begun == 1
        door.leave(calls[0], [1], None)
        assert await asyncio.wait_for(entered[1], 60) is None

    asyncio.run(main())


def test_a_call_that_may_run_as_calls_begin_to_rest_gives_its_place_back() -> None:
    circuit, concurrency = Circuit(Breaker("service", failures=1, rest=MINUTE)), Concurrency(Adaptive(), 1)
    door, calls = Door(None, circuit, concurrency), [Call(None, number, None) for number in range(2)]

    async def main() -> None:
        assert await door.enter(calls[0]) is None
        waits = asyncio.get_running_loop().create_task(door.enter(calls[1]))
        await asyncio.sleep(0)
        assert concurrency.running == 1
        door.leave(calls[0], (), OSError("down"))
        while not circuit.waiting:
            await asyncio.sleep(0.001)
        assert (concurrency.running, door.holds) == (0, True)
        waits.cancel()

    asyncio.run(main())


def test_calls_of_a_plain_function_rest_too() -> None:
    asked = list[int]()

    def ask(value: int) -> list[int]:
        asked.append(value)
        if len(asked) == 1:
            raise OSError("down")
        return [value]

    pipeline = Pipeline("plain", on_error=dead_letter())
    numbers = pipeline.stream("numbers", value=int)
    breaker = Breaker("service", failures=1, rest=MINUTE)
    numbers.async_flat_map(in_threads(ask, threads=2), id="ask", breaker=breaker).send_to("answers", value=int)
    with PipelineDriver(pipeline) as driver:
        for number in range(3):
            driver.send("numbers", number)
        driver.advance(30 * SECOND)
        assert asked == [0]
        driver.advance(MINUTE)
        assert _answers(driver) == [1, 2]


def test_what_waits_in_a_loop_that_has_ended_is_forgotten() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=1)))

    async def leave_behind() -> None:
        await _fail(circuit, 1)
        await _enter(circuit)
        asyncio.get_running_loop().create_task(_enter(circuit))
        await asyncio.sleep(0)

    asyncio.run(leave_behind())
    assert circuit.room(1) == 0

    async def again() -> bool:
        return await _enter(circuit)

    assert asyncio.run(again())


@pytest.mark.parametrize(
    ("given", "wrong"),
    [({"failures": 0}, "failures=0"), ({"rest": timedelta(0)}, "rest is"), ({"on": ()}, "on="), ({"on": (1,)}, "on=")],
)
def test_what_makes_no_breaker_is_refused(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(PipelineError, match=wrong):
        Breaker("service", **given)


def test_a_pipeline_knows_each_breaker_once_and_names_are_of_one() -> None:
    pipeline = _pipeline(Service())
    assert breakers_of(pipeline.calls) == (BREAKER,)
    assert checked_breaker("ask", None) is None
    with pytest.raises(PipelineError, match="breaker=3"):
        checked_breaker("ask", 3)
    numbers = pipeline.stream("others", value=int)
    with pytest.raises(PipelineError, match="two breakers of pipeline 'broken' are named 'service'"):
        numbers.async_flat_map(Service().ask, id="other", breaker=Breaker("service", failures=4))

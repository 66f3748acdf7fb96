"""What calls of remote tables wait for: limits, breakers and rates, which reads and writes share."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from fluvial.dsl import Batch, Breaker, Cache, Limit, Pipeline, PipelineError, Retry, dead_letter
from fluvial.dsl.operators.calls import breakers_of
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.circuit import Circuit
from fluvial.runtime.kernel.calls.rate_limiter import RateLimiter
from fluvial.runtime.kernel.calls.table_door import FunctionDoor, TableDoor
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
BREAKER = Breaker("service", failures=3, rest=MINUTE, on=(OSError,))


class Service:
    """Rows that are their keys. It fails while it is down, and notes when it is asked what; an answer takes 0.1 s."""

    def __init__(self, *, down: bool = True) -> None:
        self.down = down
        self.asked: list[tuple[float, Any]] = []

    async def _answer(self, asked: Any) -> None:
        self.asked.append((asyncio.get_running_loop().time(), asked))
        await asyncio.sleep(0.1)
        if self.down:
            raise OSError("down")

    async def read(self, key: str) -> str:
        await self._answer(key)
        return key

    async def read_each(self, keys: Sequence[str]) -> Mapping[str, str]:
        await self._answer([*keys])
        return {key: key for key in keys}

    async def write(self, key: str, row: str | None) -> None:
        await self._answer((key, row))

    async def write_each(self, rows: Mapping[str, str | None]) -> None:
        await self._answer({**rows})


def both(service: Service, *, many: bool = False, **options: Any) -> Pipeline:
    """A table that is read and written."""
    functions: dict[str, Any] = {"read": service.read, "write": service.write}
    if many:
        functions = {"read": service.read_each, "write": service.write_each, "batch": Batch(size=3, delay=SECOND)}
    pipeline = Pipeline("rows", on_error=dead_letter())
    table = pipeline.remote_table("table", **{"retry": Retry(attempts=1), **functions, **options})
    words = pipeline.stream("words", key=str, value=str)
    words.join(table, lambda word, row: f"{word}{row}", id="row").send_to("out", value=str)
    pipeline.stream("rows", key=str, value=str).send_to(table)
    return pipeline


def written(driver: PipelineDriver) -> list[Any]:
    return sorted(message.value for message in driver.read("out"))


def test_calls_of_a_table_rest_after_failures_in_a_row_and_one_tries_again() -> None:
    service = Service()
    with PipelineDriver(both(service, breaker=BREAKER, max_in_flight=1)) as driver:
        for number in range(10):
            driver.send("words", f"{number}", key="k")
        driver.advance(30 * SECOND)
        assert len(service.asked) == 3
        driver.advance(MINUTE)
        assert len(service.asked) == 4  # it fails, and all rest again
        service.down = False
        driver.advance(MINUTE)
        assert written(driver) == [f"{number}k" for number in range(4, 10)]
        assert len(driver.dead_letters) == 4


def test_reads_and_writes_share_a_breaker() -> None:
    service = Service()
    with PipelineDriver(both(service, breaker=BREAKER)) as driver:
        for number in range(3):
            driver.send("words", f"{number}", key="k")
        driver.advance(SECOND)
        driver.send("rows", "row", key="k")
        driver.advance(30 * SECOND)
        assert [asked for _, asked in service.asked] == ["k"] * 3
        service.down = False
        driver.advance(MINUTE)
        assert service.asked[-1][1] == ("k", "row")


def test_attempts_wait_too_and_it_costs_no_timeout() -> None:
    service = Service()
    retry = Retry(attempts=9, delay=timedelta(0))
    with PipelineDriver(both(service, breaker=BREAKER, retry=retry, timeout=SECOND)) as driver:
        driver.send("words", "a", key="k")
        driver.send("rows", "b", key="k")
        driver.advance(30 * SECOND)
        failed = len(service.asked)
        assert 3 <= failed <= 4  # one had begun when the third failed
        service.down = False
        driver.advance(MINUTE)
        assert written(driver) == ["ak"]
        assert ("k", "b") in [asked for _, asked in service.asked[failed:]]
        assert not driver.dead_letters


def test_what_takes_too_long_makes_calls_rest_and_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    breaker = Breaker("service", failures=1, rest=MINUTE, on=(TimeoutError,))
    service = Service(down=False)
    with PipelineDriver(both(service, breaker=breaker, timeout=timedelta(milliseconds=50))) as driver:
        for word in ("a", "b"):
            driver.send("words", word, key="k")
            driver.advance(SECOND)
    assert len(service.asked) == 1
    assert "no result within 50 ms, the timeout, in attempt 1 of 1" in caplog.messages[0]


def test_what_the_cache_has_is_no_failure_and_a_batch_is_one() -> None:
    service = Service()
    with PipelineDriver(both(service, many=True, breaker=BREAKER, cache=Cache())) as driver:
        for number in range(6):
            driver.send("words", "w", key=f"{number}")
        driver.advance(SECOND)
        assert [len(asked) for _, asked in service.asked] == [3, 3]
        service.down = False
        driver.send("words", "w", key="a")
        driver.advance(2 * SECOND)
        driver.send("words", "w", key="a")
        driver.advance(2 * SECOND)
        assert written(driver) == ["wa", "wa"]
    assert len(service.asked) == 3


def test_calls_that_have_rested_begin_no_faster_than_the_rate() -> None:
    service = Service()
    options: dict[str, Any] = {"reads_per_second": 1, "retry": Retry(attempts=9, delay=timedelta(0))}
    with PipelineDriver(both(service, breaker=BREAKER, max_in_flight=20, **options)) as driver:
        for number in range(10):
            driver.send("words", "w", key=f"{number}")
        driver.advance(30 * SECOND)
        rested = len(service.asked)
        service.down = False
        driver.advance(5 * MINUTE)
        assert len(written(driver)) == 10
    begun = [at for at, _ in service.asked[rested:]]
    assert all(later - earlier > 0.99 for earlier, later in pairwise(begun))


def test_operators_of_a_table_have_its_breaker_and_a_second_one_of_its_name_is_refused() -> None:
    pipeline = both(Service(), breaker=BREAKER)
    assert breakers_of(pipeline.calls) == (BREAKER,)
    other = pipeline.remote_table("others", read=Service().read, breaker=Breaker("service"))
    words = pipeline.stream("more", key=str, value=str)
    with pytest.raises(PipelineError, match="two breakers of pipeline 'rows' are named 'service'"):
        words.join(other, lambda word, _: word, id="other")


def door(admission: Admission | None = None, circuit: Circuit | None = None) -> FunctionDoor:
    return FunctionDoor(RateLimiter(None), admission, circuit)


def test_the_door_of_messages_lets_them_pass_and_says_whether_any_call_waits() -> None:
    admission = Admission(Limit("service", budget=1))
    messages = TableDoor(door(admission))

    async def wait() -> None:
        await admission.enter(0)
        call = Call(None, 0, None)
        messages.expect()
        assert await messages.enter(call) is None
        assert messages.leave(call, (), None) is None
        assert not messages.holds
        waits = asyncio.get_running_loop().create_task(admission.enter(0))
        await asyncio.sleep(0)
        assert messages.holds
        assert messages.room > 1000
        messages.flush()
        await waits
        messages.close()

    asyncio.run(wait())


def test_a_rest_takes_no_messages_and_then_one() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=20)))
    calls = door(circuit=circuit)
    messages = TableDoor(calls)

    async def rest() -> None:
        call = Call(None, 0, None)
        assert await calls.enter(call) is None
        assert calls.leave(call, None, OSError("down")) is None
        assert (messages.room, messages.holds) == (0, True)
        while not messages.room:
            await asyncio.sleep(0.01)
        messages.expect()
        assert messages.room == 0  # one is on its way, to try
        assert await messages.enter(call) is None
        assert await calls.enter(call) is None
        calls.leave(call, (), None)
        assert messages.room > 1000

    asyncio.run(rest())


def test_a_call_that_is_cancelled_as_it_tries_lets_another_one_try_and_costs_nothing() -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=1)))
    admission = Admission(Limit("service", budget=5))
    calls = door(admission, circuit)

    async def cancel() -> None:
        first, second = Call(None, 0, None), Call(None, 1, None)
        await calls.enter(first)
        calls.leave(first, None, OSError("down"))
        await calls.enter(first)
        calls.give_up(first)
        calls.give_up(first)  # once more, as where its door was closed before
        assert await calls.enter(second) is None
        assert calls.leave(second, (), None) is None

    asyncio.run(cancel())
    assert not circuit.open
    assert admission.meters["budget"].used_in_all == 1

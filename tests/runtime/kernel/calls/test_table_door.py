"""What calls of remote tables wait for: limits, breakers, rates, and their turn where their number is adaptive."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from fluvial.dsl import Adaptive, Batch, Breaker, Cache, Limit, Pipeline, PipelineError, Retry, dead_letter
from fluvial.dsl.operators.calls import breakers_of
from fluvial.runtime import call_keys
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.circuit import Circuit
from fluvial.runtime.kernel.calls.concurrency import Concurrency
from fluvial.runtime.kernel.calls.rate_limiter import RateLimiter
from fluvial.runtime.kernel.calls.table_door import FunctionDoor, TableDoor
from fluvial.runtime.kernel.operators.remote_tables import RemoteTableClient
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
    given: dict[str, Any] = {"retry": Retry(attempts=1), **functions, **options}
    pipeline = Pipeline("rows", on_error=dead_letter())
    table = pipeline.remote_table("table", **given)
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


class Counted(Service):
    """A service that is up, and counts how many calls of each function it has at once."""

    def __init__(self) -> None:
        super().__init__(down=False)
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def _answer(self, asked: Any) -> None:
        kind = type(asked).__name__
        self.now[kind] += 1
        self.most[kind] = max(self.most[kind], self.now[kind])
        try:
            await super()._answer(asked)
        finally:
            self.now[kind] -= 1


def test_all_tasks_of_a_process_have_one_number_for_reads_and_one_for_writes() -> None:
    service = Counted()
    with PipelineDriver(both(service, concurrency=Adaptive()), partitions=4) as driver:
        for number in range(60):
            for stream in ("words", "rows"):
                driver.send(stream, "w", key=f"{number}")
        driver.advance(timedelta(milliseconds=50))
        assert service.most == {"str": 10, "tuple": 10}  # with which it begins
        driver.advance(MINUTE)
        assert len(written(driver)) == 60
    assert len(service.asked) == 120


def test_the_number_follows_the_service() -> None:
    service = Counted()
    service.down = True
    with PipelineDriver(both(service, concurrency=Adaptive())) as driver:
        for number in range(70):
            driver.send("words", "w", key=f"{number}")
        driver.advance(timedelta(milliseconds=50))
        assert service.most == {"str": 10}
        driver.advance(timedelta(milliseconds=1500))
        service.most.clear()
        driver.advance(MINUTE)
        assert service.most == {"str": 1}
        assert len(driver.dead_letters) == 70


def test_batches_are_counted_and_what_the_cache_has_is_no_call() -> None:
    service = Counted()
    options: dict[str, Any] = {"many": True, "concurrency": Adaptive(least=1), "max_in_flight": 6, "cache": Cache()}
    with PipelineDriver(both(service, **options)) as driver:
        for _ in range(2):
            for number in range(24):
                driver.send("words", "w", key=f"{number}")
            driver.advance(10 * SECOND)
        assert len(written(driver)) == 48
    assert service.most == {"list": 2}  # of three keys each
    assert [len(asked) for _, asked in service.asked] == [3] * 8


def test_messages_are_taken_for_twice_as_many_calls_as_may_run() -> None:
    calls = FunctionDoor(RateLimiter(None), None, batch=3, make=partial(Concurrency, Adaptive(), 2))
    messages = TableDoor(calls)

    async def take() -> None:
        assert (messages.room, messages.at_once, messages.holds) == (12, 2, False)
        messages.expect()
        begun = [Call(None, [0], None) for _ in range(2)]
        for call in begun:
            await calls.enter(call)
        waits = asyncio.get_running_loop().create_task(calls.enter(Call(None, [0], None)))
        await asyncio.sleep(0)
        assert messages.room == 2
        calls.give_up(begun[0])
        await waits
        assert messages.room == 5
        calls.leave(begun[1], {}, None)
        assert messages.room == 8

    asyncio.run(take())
    assert messages.room == 11  # what is left of an event loop that has ended counts no more


def test_calls_of_an_event_loop_that_has_ended_take_nobody_the_turn() -> None:
    calls = FunctionDoor(RateLimiter(None), None, make=partial(Concurrency, Adaptive(), 1))
    call = Call(None, 0, None)

    async def enter(one: Call) -> None:
        assert await asyncio.wait_for(calls.enter(one), 60) is None

    asyncio.run(enter(call))
    asyncio.run(enter(Call(None, 1, None)))
    calls.give_up(call)
    assert calls.room_for(0) == 2


def test_a_call_that_is_cancelled_as_it_waits_for_the_rate_gives_its_turn_back() -> None:
    calls = FunctionDoor(RateLimiter(0.001), None, make=partial(Concurrency, Adaptive(), 2))

    async def cancel() -> None:
        loop = asyncio.get_running_loop()
        await calls.enter(Call(None, 0, None))
        waits = loop.create_task(calls.enter(Call(None, 1, None)))
        await asyncio.sleep(0)
        assert calls.room_for(0) == 2
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert calls.room_for(0) == 3

    asyncio.run(cancel())


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


@pytest.mark.parametrize("cached", [False, True])
def test_a_rest_takes_no_messages_and_then_one_or_all_that_the_cache_may_have(*, cached: bool) -> None:
    circuit = Circuit(Breaker("service", failures=1, rest=timedelta(milliseconds=20)))
    calls = FunctionDoor(RateLimiter(None), None, circuit, cached=cached)
    messages = TableDoor(calls)

    async def rest() -> None:
        call = Call(None, 0, None)
        assert await calls.enter(call) is None
        assert calls.leave(call, None, OSError("down")) is None
        assert (messages.room, messages.holds) == (0, True)
        while not messages.room:
            await asyncio.sleep(0.01)
        messages.expect()
        assert (messages.room > 1000) == cached  # else one is on its way, to try
        assert await messages.enter(call) is None
        assert await calls.enter(call) is None
        assert messages.room == 0
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


class Paused(Service):
    """A service that is up. Its first answer to a key, or to a row that is written, takes a minute."""

    def __init__(self) -> None:
        super().__init__(down=False)
        self.known: set[str] = set()
        self.keys: list[list[str]] = []

    async def _answer(self, asked: Any) -> None:
        self.keys.append(call_keys())
        first = repr(asked) not in self.known
        self.known.add(repr(asked))
        await super()._answer(asked)
        if first:
            await asyncio.sleep(60)


@pytest.mark.parametrize("many", [False, True])
def test_a_read_that_takes_long_is_made_a_second_time_under_its_key_and_a_write_is_not(*, many: bool) -> None:
    service = Paused()
    with PipelineDriver(both(service, many=many, hedge=2 * SECOND, timeout=5 * MINUTE)) as driver:
        for number in range(3):
            driver.send("words", "w", key=f"{number}")
        driver.advance(3 * SECOND)
        assert written(driver) == ["w0", "w1", "w2"]
        driver.send("rows", "row", key="k")
        driver.advance(2 * MINUTE)
    asked = [repr(asked) for _, asked in service.asked]
    assert sorted(map(asked.count, {*asked})) == ([1, 2] if many else [1, 2, 2, 2])
    assert len({*zip(asked, map(repr, service.keys), strict=True)}) == len({*asked})


def test_a_pool_counts_the_second_calls_that_were_made_for_its_messages() -> None:
    pipeline = both(Service(), hedge=SECOND)
    (call, _), operator = pipeline.calls, pipeline.operator("row")
    assert call.table is not None
    client = RemoteTableClient(call.table)
    hedged = client.hedged_reads()
    assert hedged is not None
    hedged.count = 3
    reads = CallPool(operator, call, lambda _: None, door=client.door_of_reads(hedged))
    others = CallPool(operator, call, lambda _: None, door=client.door_of_reads(client.hedged_reads()))
    writes = CallPool(operator, call, lambda _: None, door=client.door_of_writes())
    assert (reads.hedges, others.hedges, writes.hedges) == (3, 0, None)

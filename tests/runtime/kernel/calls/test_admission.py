"""Limits in front of calls: calls waiting costs no timeout, an exhausted budget pauses or fails."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Batch, BudgetExhausted, Limit, Message, Pipeline, Retry, dead_letter
from fluvial.dsl.operators import AsyncCall
from fluvial.planner import Settings
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.door import Door
from fluvial.runtime.kernel.calls.task_calls import TaskCalls
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Service:
    """Notes when it is asked. A call takes a second; those of the values in `failing` fail once."""

    def __init__(self, *failing: int) -> None:
        self.asked: list[float] = []
        self.failing = set(failing)

    async def one(self, value: int) -> list[int]:
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if value in self.failing:
            self.failing.remove(value)
            raise OSError("busy")
        return [value]

    async def each(self, values: list[int]) -> list[list[int]]:
        self.asked.append(asyncio.get_running_loop().time())
        return [[value] for value in values]


def _pipeline(fn: Any, limit: Limit, **options: Any) -> Pipeline:
    pipeline = Pipeline("limited", on_error=dead_letter())
    numbers = pipeline.stream("numbers", value=int)
    numbers.async_flat_map(fn, id="ask", limit=limit, order="none", **options).send_to("answers", value=int)
    return pipeline


def _answers(driver: PipelineDriver) -> list[Any]:
    return sorted(message.value for message in driver.read("answers"))


def _error(letter: Message[Any]) -> str:
    return dict(letter.headers)["fluvial-error"].decode()


def _send(driver: PipelineDriver, count: int) -> None:
    for number in range(count):
        driver.send("numbers", number)


def test_calls_begin_within_the_limit_and_waiting_costs_no_timeout() -> None:
    service = Service()
    limit = Limit("service", calls=1, per=MINUTE)
    with PipelineDriver(_pipeline(service.one, limit, timeout=2 * SECOND)) as driver:
        _send(driver, 4)
        driver.advance(4 * MINUTE)
        assert _answers(driver) == [0, 1, 2, 3]
        pauses = [after - before for before, after in zip(service.asked, service.asked[1:], strict=False)]
        assert all(59 <= pause <= 61 for pause in pauses)


def test_no_message_is_taken_long_before_its_call_may_begin_so_that_commits_wait_for_none() -> None:
    limit, once = Limit("service", calls=1, per=MINUTE), Settings(guarantee="exactly_once")
    with PipelineDriver(_pipeline(Service().one, limit), settings=once, commits="timed") as driver:
        _send(driver, 3)
        driver.advance(10 * SECOND)
        assert _answers(driver) == [0]
        driver.advance(MINUTE)
        assert _answers(driver) == [0, 1]


def test_a_process_that_takes_no_message_for_a_slow_limit_needs_it_all_the_same() -> None:
    admission = Admission(Limit("service", calls=1, per=MINUTE))

    async def calls() -> None:
        await admission.enter(0)
        assert (admission.holds, admission.needs) == (True, {})
        assert admission.room() == 0
        assert admission.needs["calls"] == 1
        await asyncio.sleep(2)  # in which no message is there
        assert admission.needs == {}

    VirtualLoop().run_waiting(calls())


def test_no_message_is_taken_for_a_call_of_which_a_process_holds_too_little_and_more_is_asked_for() -> None:
    admission = Admission(Limit("service", calls=1, per=MINUTE))

    async def calls() -> None:
        await admission.enter(0)
        await asyncio.sleep(60)
        admission.meters["calls"].most = 0.4
        assert not admission.holds
        assert (admission.room(), admission.holds, admission.needs["calls"]) == (0, True, 1)
        admission.meters["calls"].most = 1
        assert admission.room() == 1
        await admission.enter(1)
        assert admission.needs == {}

    VirtualLoop().run_waiting(calls())


def test_repeats_count() -> None:
    service = Service(0)
    limit = Limit("service", calls=1, per=MINUTE)
    with PipelineDriver(_pipeline(service.one, limit, retry=Retry(attempts=2, delay=SECOND))) as driver:
        _send(driver, 1)
        driver.advance(10 * SECOND)
        assert len(service.asked) == 1
        driver.advance(MINUTE)
        assert len(service.asked) == 2
        assert _answers(driver) == [0]


def test_operators_with_one_limit_share_it() -> None:
    service, limit = Service(), Limit("service", calls=2, per=MINUTE)
    pipeline = _pipeline(service.one, limit)
    others = pipeline.stream("others", value=int)
    others.async_flat_map(service.one, id="ask-too", limit=limit).send_to("answers-too", value=int)
    with PipelineDriver(pipeline) as driver:
        _send(driver, 3)
        for number in range(3):
            driver.send("others", number)
        driver.advance(timedelta(seconds=151))
        assert len(service.asked) <= 7
        driver.advance(timedelta(seconds=60))
        assert len(service.asked) == 6


def test_tokens_are_taken_by_estimate_and_settled() -> None:
    service = Service()
    limit = Limit("model", tokens=10, per=MINUTE, estimate=lambda _: 8, used=lambda _value, _results: 2)
    with PipelineDriver(_pipeline(service.one, limit)) as driver:
        _send(driver, 2)
        driver.advance(30 * SECOND)
        assert len(service.asked) == 2
    with PipelineDriver(_pipeline(service.one, Limit("model", tokens=10, per=MINUTE, estimate=lambda _: 8))) as driver:
        _send(driver, 2)
        driver.advance(30 * SECOND)
        assert len(service.asked) == 3


def test_batches_are_one_call_and_are_estimated_as_lists() -> None:
    service = Service()
    limit = Limit("model", tokens=6, calls=100, per=MINUTE, estimate=len)
    with PipelineDriver(_pipeline(service.each, limit, batch=Batch(size=3))) as driver:
        _send(driver, 6)
        driver.advance(SECOND)
        assert len(service.asked) == 1
        driver.advance(2 * MINUTE)
        assert _answers(driver) == [0, 1, 2, 3, 4, 5]
        assert len(service.asked) == 2


def test_an_estimate_above_the_limit_fails_its_message() -> None:
    limit = Limit("model", tokens=10, per=MINUTE, estimate=lambda value: 11 if value == 1 else 1)
    with PipelineDriver(_pipeline(Service().one, limit)) as driver:
        _send(driver, 3)
        driver.advance(MINUTE)
        assert _answers(driver) == [0, 2]
        (letter,) = driver.dead_letters
        assert "the estimate of a call is 11 tokens, and the limit allows 10" in _error(letter)


@pytest.mark.parametrize("returned", [-1, "many", True, float("inf")])
def test_what_is_no_amount_fails_its_message(returned: Any) -> None:
    limits = (
        Limit("model", tokens=10, per=MINUTE, estimate=lambda _: returned),
        Limit("model", tokens=10, per=MINUTE, estimate=lambda _: 1, used=lambda _value, _results: returned),
        Limit("model", budget=10, cost=lambda _value, _results: returned),
    )
    for limit in limits:
        with PipelineDriver(_pipeline(Service().one, limit)) as driver:
            _send(driver, 1)
            driver.advance(MINUTE)
            assert _answers(driver) == []
            (letter,) = driver.dead_letters
            assert "it must return a number, 0 or more" in _error(letter)


def test_an_exhausted_budget_pauses() -> None:
    service = Service()
    limit = Limit("model", budget=3)
    with PipelineDriver(_pipeline(service.one, limit), settings=Settings(stall_timeout=MINUTE)) as driver:
        _send(driver, 9)
        driver.advance(10 * MINUTE)
        assert _answers(driver) == [0, 1, 2]


def test_an_exhausted_budget_fails_messages_where_that_is_declared() -> None:
    limit = Limit("model", budget=3.5, when_exhausted="error")
    with PipelineDriver(_pipeline(Service().one, limit)) as driver:
        _send(driver, 9)
        driver.advance(10 * MINUTE)
        assert _answers(driver) == [0, 1, 2, 3]
        assert len(driver.dead_letters) == 5
        assert all("the budget of limit 'model', 3.5, is exhausted" in _error(letter) for letter in driver.dead_letters)


@settings(max_examples=examples(400, least=20))
@given(st.lists(st.floats(0.1, 2), min_size=1, max_size=40), st.floats(0.5, 20))
def test_a_budget_is_passed_by_one_call_at_most(costs: list[float], budget: float) -> None:
    costs.sort(reverse=True)  # no call costs more than those before it
    limit = Limit("model", budget=budget, cost=lambda value, _: costs[value])
    with PipelineDriver(_pipeline(Service().one, limit)) as driver:
        _send(driver, len(costs))
        driver.advance(5 * MINUTE)
        spent = [costs[value] for value in _answers(driver)]
    assert sum(spent) - min(spent) < budget
    assert len(spent) == len(costs) or sum(spent) >= budget - 1e-6


def test_failed_calls_cost_nothing_and_keep_their_tokens() -> None:
    limit = Limit("model", calls=100, tokens=100, per=MINUTE, estimate=lambda _: 5, budget=9)
    admission = Admission(limit)

    async def calls() -> None:
        ticket = await admission.enter(0)
        admission.leave(ticket, 0, (), failed=True)
        await admission.enter(1)

    asyncio.run(calls())
    assert {name: meter.used_in_all for name, meter in admission.meters.items()} == {
        "calls": 2,
        "tokens": 10,
        "budget": 1,
    }


def test_what_waits_in_a_loop_that_has_ended_is_forgotten() -> None:
    admission = Admission(Limit("service", calls=1, per=timedelta(hours=1)))

    async def two() -> None:
        await admission.enter(0)
        asyncio.get_running_loop().create_task(admission.enter(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(two())
    assert admission.room() == 1
    admission.pump()

    async def none() -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(admission.enter(0), 0.01)
        return admission.waiting

    assert asyncio.run(none()) == 0


def test_a_pool_that_is_cancelled_leaves_nothing_behind() -> None:
    limit, service = Limit("service", calls=2, per=MINUTE, budget=10), Service()
    admission = Admission(limit)
    call = AsyncCall(fn=service.one, max_in_flight=5, order="none", timeout=1000, retry=None, limit=limit)

    async def cancel() -> None:
        pipeline = _pipeline(service.one, limit)
        pool = CallPool(pipeline.operator("ask"), call, lambda _: None, door=Door(admission))
        for number in range(5):
            pool.submit(Call(None, number, None))
        await asyncio.sleep(0.01)
        assert pool.held_up
        assert pool.allowance == 0
        calls = TaskCalls({"ask": pool}, ["numbers"], lambda: 0)
        assert calls.held_up
        assert calls.room("numbers") == calls.free == 0
        pool.cancel()
        await asyncio.sleep(0.01)

    asyncio.run(cancel())
    assert admission.expected == admission.waiting == 0
    assert admission.meters["budget"].used_in_all == 0


def test_a_call_that_is_cancelled_as_it_may_begin_gives_back_what_it_took() -> None:
    admission = Admission(Limit("model", budget=9, cost=lambda _value, _results: 1))

    async def cancel() -> None:
        ticket = await admission.enter(0)
        waits = asyncio.get_running_loop().create_task(admission.enter(0))
        await asyncio.sleep(0)
        admission.leave(ticket, 0, (), failed=True)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await asyncio.wait_for(admission.enter(0), 60)

    asyncio.run(cancel())
    assert admission.begun == 2


def test_a_pool_that_is_cancelled_begins_no_other_call() -> None:
    service = Service()
    limit = Limit("model", budget=9, cost=lambda _value, _results: 1)
    admission = Admission(limit)
    operator = _pipeline(service.one, limit).operator("ask")
    call = AsyncCall(fn=service.one, max_in_flight=5, order="none", timeout=1000, retry=None, limit=limit)

    async def cancel() -> None:
        pool = CallPool(operator, call, lambda _: None, door=Door(admission))
        for number in range(3):
            pool.submit(Call(None, number, None))
        await asyncio.sleep(0.01)
        pool.cancel()
        assert admission.begun == 1  # calls are made one by one until one has ended
        await asyncio.wait_for(admission.enter(0), 60)

    asyncio.run(cancel())
    assert len(service.asked) == 1


def test_a_commit_lets_through_what_the_budget_keeps_waiting() -> None:
    admission = Admission(Limit("model", budget=1))

    async def flush() -> None:
        await admission.enter(0)
        waits = asyncio.get_running_loop().create_task(admission.enter(0))
        await asyncio.sleep(0)
        assert admission.waiting == 1
        assert admission.needs["budget"] == 1
        admission.flush()
        await waits

    assert admission.needs == {}
    asyncio.run(flush())


def test_an_error_of_a_limit_makes_no_call_again() -> None:
    def cost(_value: Any, _results: Any) -> float:
        raise OSError("broken")

    service = Service()
    limit = Limit("model", budget=9, cost=cost)
    with PipelineDriver(_pipeline(service.one, limit, retry=Retry(attempts=3, on=(OSError,)))) as driver:
        _send(driver, 1)
        driver.advance(MINUTE)
        assert len(service.asked) == 1
        assert "broken" in _error(driver.dead_letters[0])


def test_an_equal_part_of_a_budget_is_exhausted_for_itself() -> None:
    admission, told = Admission(Limit("model", budget=10, when_exhausted="error")), list[str]()
    admission.on_exhausted = told.append
    admission.divide(5)

    async def calls() -> None:
        for _ in range(2):
            admission.leave(await admission.enter(0), 0, [], failed=False)
        assert admission.room() > 1000  # they fail, and are not kept waiting
        with pytest.raises(BudgetExhausted, match="of limit 'model', 10 in 5 parts, is exhausted"):
            await asyncio.wait_for(admission.enter(0), 60)

    asyncio.run(calls())
    assert len(told) == 1


def test_a_part_of_less_than_a_call_is_one_call_in_a_longer_span() -> None:
    admission = Admission(Limit("service", calls=4, per=MINUTE))
    admission.divide(8)
    meter = admission.meters["calls"]
    assert (meter.most, meter.per) == (1, 120)
    meter.take(0.0, 1)
    assert 115 < meter.wait(0.0, 1) < 125
    admission.divide(8)  # as each pass on Spark does
    assert meter.wait(0.0, 1) > 115


def test_an_exhausted_budget_is_reported_once() -> None:
    admission, told = Admission(Limit("model", budget=1)), list[str]()
    admission.on_exhausted = told.append

    async def wait() -> None:
        ticket = await admission.enter(0)
        assert admission.room() == 0
        assert not told  # the call may cost less
        admission.leave(ticket, 0, [], failed=False)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(admission.enter(0), 0.01)

    asyncio.run(wait())
    assert len(told) == 1
    assert "the budget of limit 'model', 1, is exhausted" in told[0]
    assert isinstance(BudgetExhausted(), Exception)


def test_an_exhausted_budget_is_reported_where_no_call_comes_any_more() -> None:
    told = list[str]()
    admission = Admission(Limit("model", budget=2))
    admission.on_exhausted = told.append

    async def calls() -> None:
        for _ in range(2):
            admission.leave(await admission.enter(0), 0, [], failed=False)

    asyncio.run(calls())
    assert not told
    assert (admission.room(), len(told)) == (0, 1)
    # So it is in a container that has made none.
    other = Admission(Limit("model", budget=2))
    other.on_exhausted, other.meters["budget"].most = told.append, 0.0
    assert (other.room(), len(told)) == (0, 1)
    other.set_spent_by_all(2.0)
    assert (other.room(), len(told)) == (0, 2)


def test_calls_that_are_in_flight_exhaust_no_budget_for_others() -> None:
    service = Service()
    limit = Limit("model", budget=20, cost=lambda value, _: 5 if value == 0 else 1, when_exhausted="error")
    with PipelineDriver(_pipeline(service.one, limit)) as driver:
        _send(driver, 1)
        driver.advance(10 * SECOND)
        _send(driver, 11)  # of which three hold five each
        driver.advance(10 * MINUTE)
        assert not driver.dead_letters
        assert len(service.asked) == 12


def test_a_commit_lets_nothing_pass_a_budget_whose_calls_fail() -> None:
    admission = Admission(Limit("model", budget=2, when_exhausted="error"))

    async def calls() -> None:
        in_flight = [await admission.enter(0), await admission.enter(0)]
        waits = asyncio.create_task(admission.enter(0))
        await asyncio.sleep(0)
        admission.flush()
        assert (admission.waiting, admission.begun) == (1, 2)
        for ticket in in_flight:
            admission.leave(ticket, 0, [], failed=False)
        with pytest.raises(BudgetExhausted):
            await waits

    asyncio.run(calls())

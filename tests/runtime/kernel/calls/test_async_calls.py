"""Asynchronous calls: how many are in flight, in which order they are handed on, and what ends them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Limit, Pipeline, Retry
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.deadlines import Deadlines
from fluvial.runtime.kernel.calls.door import Door
from fluvial.runtime.kernel.calls.ordered_queues import share_of
from fluvial.runtime.testing.completion_order import CompletionGate
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples

Fn = Callable[[Any], Awaitable[list[Any]]]
CALLS = st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.integers(0, 5)), max_size=12)
"""Keys, and the seconds that each call takes."""


def pool(fn: Fn, deliver: Callable[[Call], None], gate: Any = None, **options: Any) -> CallPool:
    operator: Any = Pipeline("p").stream("in", value=int).async_flat_map(fn, id="call", **options).operator
    call = operator.call
    door = None if call.limit is None else Door(Admission(call.limit))
    return CallPool(operator, call, deliver, gate=gate, door=door)


def run(work: Coroutine[Any, Any, Any]) -> None:
    """Run under virtual time until nothing is left to happen."""

    async def to_the_end() -> None:
        working = loop.create_task(work)
        await loop.quiet()
        while loop.jump():
            await loop.quiet()
        await working

    loop = VirtualLoop()
    loop.run_until_complete(to_the_end())
    loop.close()


def ended(fn: Fn, *values: Any, **options: Any) -> list[Call]:
    """Submit a call for each value, all at once; the calls as they were handed on."""
    found: list[Call] = []

    async def work() -> None:
        calls = pool(fn, found.append, **options)
        for value in values:
            calls.submit(Call(None, value, None))

    run(work())
    return found


async def asleep(seconds: float) -> list[float]:
    await asyncio.sleep(seconds)
    return [seconds]


async def timed(call: tuple[int, int]) -> list[int]:
    await asyncio.sleep(call[1])
    return [call[0]]


@settings(max_examples=examples(200))
@given(CALLS, st.sampled_from(["none", "key", "input"]), st.integers(1, 4))
def test_calls_of_one_lane_are_handed_on_in_the_order_they_were_submitted(
    drawn: list[tuple[bytes | None, int]], order: Any, in_flight: int
) -> None:
    found: list[tuple[bytes | None, int]] = []

    async def work() -> None:
        calls = pool(timed, lambda call: found.append((call.key, *call.results)), order=order, max_in_flight=in_flight)
        for number, (key, seconds) in enumerate(drawn):
            calls.submit(Call(key, (number, seconds), None))

    run(work())
    lanes: dict[str, list[list[bytes | None]]] = {"none": [], "key": [[b"a"], [b"b"]], "input": [[b"a", b"b", None]]}
    for lane in lanes[order]:
        numbers = [number for key, number in found if key in lane]
        assert numbers == sorted(numbers)
    assert sorted(number for _, number in found) == [*range(len(drawn))]


def test_calls_without_order_are_handed_on_as_they_end() -> None:
    assert [call.value for call in ended(asleep, 3, 1, 2, order="none")] == [1, 2, 3]


def test_a_call_without_key_is_in_nobody_s_order() -> None:
    assert [call.value for call in ended(asleep, 3, 1, 2, order="key")] == [1, 2, 3]


@settings(max_examples=examples(200))
@given(CALLS, st.sampled_from(["none", "key", "input"]), st.integers(1, 4))
def test_no_more_calls_than_allowed_are_in_flight_and_no_fewer_than_there_is_work_for(
    drawn: list[tuple[bytes | None, int]], order: Any, in_flight: int
) -> None:
    most = now = 0

    async def count(seconds: int) -> list[int]:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(1 + seconds)
        now -= 1
        return []

    async def work() -> None:
        calls = pool(count, lambda _: None, order=order, max_in_flight=in_flight)
        for key, seconds in drawn:
            calls.submit(Call(key, seconds, None))

    run(work())
    keys = Counter(key for key, _ in drawn)
    share = share_of(in_flight) if order == "key" else len(drawn)
    work_for = sum(number if key is None else min(number, share) for key, number in keys.items())
    assert (most, now) == (min(in_flight, work_for), 0)


def test_a_call_that_comes_when_all_workers_are_at_one_waits() -> None:
    in_flight: list[int] = []

    async def work() -> None:
        calls = pool(asleep, lambda _: in_flight.append(calls.in_flight), max_in_flight=2)
        for _ in range(4):
            calls.submit(Call(None, 3, None))
            await asyncio.sleep(0.5)
            in_flight.append(calls.in_flight)

    run(work())
    assert in_flight == [1, 2, 2, 2, 1, 1, 1, 0]


def test_calls_are_outstanding_until_they_are_handed_on() -> None:
    outstanding: list[int] = []

    async def work() -> None:
        calls = pool(asleep, lambda _: outstanding.append(calls.outstanding), max_in_flight=2)
        for _ in range(3):
            outstanding.append(calls.outstanding)
            calls.submit(Call(None, 1, None))

    run(work())
    assert outstanding == [0, 1, 2, 2, 1, 0]


def test_a_call_that_takes_too_long_fails_and_lets_the_next_begin() -> None:
    calls = ended(asleep, 9, 1, timeout=timedelta(seconds=2), max_in_flight=1)
    assert [(type(call.error), call.results) for call in calls] == [(TimeoutError, []), (type(None), [1])]


@pytest.mark.parametrize(
    ("failures", "attempts", "on", "at"),
    [
        ([OSError], 2, (OSError,), [0.0, 1.0]),
        ([OSError] * 3, 3, (OSError,), [0.0, 1.0, 3.0]),
        ([ValueError], 3, (OSError,), [0.0]),
        ([TimeoutError], 2, (TimeoutError,), [0.0, 1.0]),
    ],
)
def test_a_call_is_made_again_after_errors_that_were_named(
    failures: list[type[Exception]], attempts: int, on: tuple[type[Exception], ...], at: list[float]
) -> None:
    begun: list[float] = []

    async def fail_first(value: int) -> list[int]:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) <= len(failures):
            raise failures[len(begun) - 1]
        return [value]

    retry = Retry(attempts=attempts, delay=timedelta(seconds=1), on=on)
    (call,) = ended(fail_first, 7, retry=retry)
    last = failures[-1] if len(begun) <= len(failures) else None
    assert begun == at
    assert (call.results, call.error if last is None else type(call.error)) == ([] if last else [7], last)


class Outside(BaseException):
    """No Exception, and nothing that ends the process."""


async def cancel_what_it_waits_for() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(10))
    inner.cancel()
    await inner


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


async def raise_cancelled() -> None:
    raise asyncio.CancelledError


async def raise_outside() -> None:
    raise Outside


async def raise_key_error() -> None:
    raise KeyError


GIVING_UP = {
    cancel_what_it_waits_for: CancelledError,
    cancel_itself: CancelledError,
    raise_cancelled: CancelledError,
    raise_outside: RuntimeError,
    raise_key_error: KeyError,
}


@pytest.mark.parametrize(("give_up", "wrong"), GIVING_UP.items())
def test_a_function_that_gives_up_fails_its_own_call_only(
    give_up: Callable[[], Awaitable[None]], wrong: type[Exception]
) -> None:
    async def first_gives_up(value: int) -> list[int]:
        if value == 1:
            await give_up()
        await asyncio.sleep(1)
        return [value]

    calls = ended(first_gives_up, 1, 2, max_in_flight=1)
    assert [(type(call.error), call.results) for call in calls] == [(wrong, []), (type(None), [2])]


def test_a_function_that_cancels_its_task_and_returns_leaves_nothing_to_the_next_call() -> None:
    async def cancelled_too_late(value: int) -> list[int]:
        await asyncio.sleep(1)
        task = asyncio.current_task()
        assert task is not None
        if value == 1:
            task.cancel()
        return [value]

    assert [call.results for call in ended(cancelled_too_late, 1, 2, max_in_flight=1)] == [[1], [2]]


@pytest.mark.parametrize("waits_for", ["another attempt", "its door"])
def test_a_timer_that_a_function_leaves_behind_to_cancel_its_task_loses_no_call(waits_for: str) -> None:
    limit = Limit("service", calls=1, per=timedelta(seconds=10)) if waits_for == "its door" else None
    left: list[asyncio.Task[Any]] = []

    async def forgetful(value: int) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        if not left:
            left.append(task)
            asyncio.get_running_loop().call_later(1, task.cancel)
            if limit is None:
                raise OSError
        return [value]

    calls = ended(forgetful, 1, 2, max_in_flight=1, limit=limit, retry=Retry(delay=timedelta(seconds=5), on=(OSError,)))
    assert [(call.results, call.error) for call in calls] == [([1], None), ([2], None)]
    assert left[0].cancelling() == 1


@pytest.mark.parametrize("on", [Exception, CancelledError, asyncio.CancelledError, BaseException])
def test_a_cancelled_call_is_made_again_as_on_says(on: type[BaseException]) -> None:
    begun = 0

    async def second_time(value: int) -> list[int]:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise asyncio.CancelledError
        return [value]

    (call,) = ended(second_time, 7, retry=Retry(attempts=2, on=(on,)))
    assert (call.results, call.error, begun) == ([7], None, 2)


def test_a_cancelled_call_is_not_made_again_where_on_names_others() -> None:
    async def cancelled(_: int) -> list[int]:
        raise asyncio.CancelledError("by the client")

    (call,) = ended(cancelled, 7, retry=Retry(attempts=2, on=(OSError,)))
    assert (call.tries, str(call.error)) == (1, "what the function waited for was cancelled: by the client")


def test_the_call_that_a_task_makes_is_found_among_others() -> None:
    async def work() -> None:
        deadlines, calls = Deadlines(1, lambda *_: None), [Call(None, number, None) for number in range(3)]
        tasks = [asyncio.ensure_future(asyncio.sleep(0)) for _ in calls]
        for call, task in zip(calls, tasks, strict=True):
            deadlines.begin(call, task)
        assert [deadlines.made_by(task) for task in tasks] == calls
        deadlines.end(calls[2], tasks[2])
        assert [deadlines.made_by(task) for task in (tasks[2], None)] == [None, None]
        deadlines.cancel()

    run(work())


async def deaf(seconds: float) -> list[float]:
    """Does not heed that it is cancelled."""
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)
    return [seconds]


@pytest.mark.parametrize("seconds", [2.5, 9, 1000])
@pytest.mark.parametrize("order", ["none", "key", "input"])
def test_a_call_that_does_not_heed_its_timeout_fails_and_lets_the_next_begin(seconds: float, order: Any) -> None:
    calls = ended(deaf, seconds, 1, timeout=timedelta(seconds=2), max_in_flight=1, order=order)
    assert [(type(call.error), call.results) for call in calls] == [(TimeoutError, []), (type(None), [1])]


def test_a_call_that_does_not_heed_its_timeout_is_made_again() -> None:
    begun: list[float] = []

    async def first_deaf(value: int) -> list[float]:
        begun.append(asyncio.get_running_loop().time())
        return await deaf(9) if len(begun) == 1 else [value]

    retry = Retry(attempts=2, delay=timedelta(seconds=4))
    (call,) = ended(first_deaf, 7, timeout=timedelta(seconds=2), retry=retry)
    assert (call.results, begun) == ([7], [0.0, 2.0 + 1.0 + 4.0])


def test_calls_that_do_not_heed_their_timeout_are_bounded() -> None:
    calls = ended(deaf, *[1000] * 6, timeout=timedelta(seconds=2), max_in_flight=2, retry=Retry(attempts=1))
    errors = [call.error for call in calls]
    assert [type(error) for error in errors] == [TimeoutError] * 2 + [MessageError] * 4
    assert "3 calls run on although they were cancelled" in str(errors[2])
    assert "test_async_calls.py" in str(errors[2])


WHO = ContextVar("WHO", default="nobody")


@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_call_does_not_see_the_context_variables_of_others(seconds: int, in_flight: int) -> None:
    async def look(value: int) -> list[str]:
        seen = WHO.get()
        WHO.set(f"call {value}")
        if seconds:
            await asyncio.sleep(seconds)
        return [seen]

    calls = ended(look, *range(5), max_in_flight=in_flight)
    assert [call.results for call in calls] == [["nobody"]] * 5


class Array:
    """As those of NumPy, two of which have no truth value when compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value of an array is ambiguous")

    __hash__ = object.__hash__


def test_context_variables_may_have_values_that_cannot_be_compared() -> None:
    held: ContextVar[Array] = ContextVar("held")

    async def change(value: int) -> list[int]:
        held.set(Array())
        return [value]

    async def work() -> None:
        held.set(Array())
        calls = pool(change, done.append)
        for value in range(3):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(1)

    done: list[Call] = []
    run(work())
    assert [call.results for call in done] == [[0], [1], [2]]


def test_what_follows_a_call_does_not_see_its_context_variables() -> None:
    seen: list[str] = []

    async def leave(value: int) -> list[int]:
        WHO.set("call")
        return [value]

    async def work() -> None:
        calls = pool(leave, lambda _: seen.append(WHO.get()))
        calls.submit(Call(None, 1, None))

    run(work())
    assert seen == ["nobody"]


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("seconds", [0, 1])
def test_a_call_does_not_see_context_variables_that_what_follows_others_has_set(seconds: int, in_flight: int) -> None:
    seen: list[str] = []

    async def look(value: int) -> list[int]:
        seen.append(WHO.get())
        if seconds:
            await asyncio.sleep(seconds)
        if value == 2:
            raise ValueError(value)
        return [value]

    def follow(_: Call) -> None:
        WHO.set("behind")

    async def work() -> None:
        calls = pool(look, follow, max_in_flight=in_flight)
        for value in range(5):
            calls.submit(Call(None, value, None))

    run(work())
    assert seen == ["nobody"] * 5


def test_a_worker_goes_on_where_calls_leave_context_variables_as_they_were() -> None:
    workers: set[Any] = set()

    async def tidy(value: int) -> list[int]:
        workers.add(asyncio.current_task())
        token = WHO.set("call")
        await asyncio.sleep(1)
        WHO.reset(token)
        return [value]

    assert len(ended(tidy, *range(5), max_in_flight=1)) == 5
    assert len(workers) == 1


def test_results_are_taken_while_the_time_of_the_call_runs() -> None:
    async def bad_results(_: int) -> Any:
        return (1 // number for number in (1, 0))

    (call,) = ended(bad_results, 1)
    assert (type(call.error), call.results) == (ZeroDivisionError, [])


def test_after_cancel_nothing_is_handed_on() -> None:
    found: list[Call] = []

    async def work() -> None:
        calls = pool(asleep, found.append, max_in_flight=1)
        for seconds in (1, 2, 3):
            calls.submit(Call(None, seconds, None))
        await asyncio.sleep(1.5)
        calls.cancel()

    run(work())
    assert [call.value for call in found] == [1]


def test_a_gate_settles_in_which_order_calls_end() -> None:
    found: list[int] = []

    async def at_once(value: int) -> list[int]:
        return [value]

    async def work() -> None:
        gates = CompletionGate(lambda waiting: len(waiting) // 2)
        calls = pool(at_once, lambda call: found.append(*call.results), gates.wait, order="none")
        for value in (1, 2, 3):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(1)
        assert (found, calls.in_flight) == ([], 3)
        while gates.open(force=True):
            await asyncio.sleep(1)

    run(work())
    assert found == [2, 3, 1]


def test_what_fails_as_a_call_is_handed_on_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(call: Call) -> None:
        raise OSError(f"nobody takes {call.value}")

    async def work() -> None:
        pool(asleep, refuse).submit(Call(None, 1, None))

    run(work())
    assert caplog.messages[0].startswith("a worker of calls has failed")
    assert "OSError: nobody takes 1" in caplog.text

"""Asynchronous calls: how many are under way, in which order they are handed on, and what ends them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Pipeline, Retry
from fluvial.runtime.kernel.pool import Call, Pool
from fluvial.runtime.testing.clock import VirtualLoop
from fluvial.runtime.testing.gates import Gates

Fn = Callable[[Any], Awaitable[list[Any]]]
CALLS = st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.integers(0, 5)), max_size=12)
"""Keys, and the seconds that each call takes."""


def pool(fn: Fn, deliver: Callable[[Call], None], gate: Any = None, **options: Any) -> Pool:
    operator: Any = Pipeline("p").stream("in", value=int).async_flat_map(fn, id="call", **options).operator
    return Pool(operator, deliver, gate=gate)


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


@settings(max_examples=50)
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


@settings(max_examples=50)
@given(CALLS, st.sampled_from(["none", "key", "input"]), st.integers(1, 4))
def test_no_more_calls_than_allowed_are_under_way_and_no_fewer_than_there_is_work_for(
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
    assert (most, now) == (min(in_flight, len(drawn)), 0)


def test_a_call_that_comes_when_all_workers_are_at_one_waits() -> None:
    under_way: list[int] = []

    async def work() -> None:
        calls = pool(asleep, lambda _: under_way.append(calls.in_flight), max_in_flight=2)
        for _ in range(4):
            calls.submit(Call(None, 3, None))
            await asyncio.sleep(0.5)
            under_way.append(calls.in_flight)

    run(work())
    assert under_way == [1, 2, 2, 2, 1, 1, 1, 0]


def test_there_is_room_for_as_many_calls_again_as_may_be_under_way() -> None:
    rooms: list[int] = []

    async def work() -> None:
        calls = pool(asleep, lambda _: rooms.append(calls.room), max_in_flight=2)
        for _ in range(5):
            rooms.append(calls.room)
            calls.submit(Call(None, 1, None))

    run(work())
    assert rooms == [4, 3, 2, 1, 0, 0, 1, 2, 3, 4]


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


@pytest.mark.parametrize("wrong", [asyncio.CancelledError, KeyError])
def test_a_function_that_gives_up_fails_its_own_call_only(wrong: type[BaseException]) -> None:
    async def give_up(value: int) -> list[int]:
        if value == 1:
            raise wrong
        return [value]

    calls = ended(give_up, 1, 2, max_in_flight=1)
    assert [(type(call.error), call.results) for call in calls] == [(wrong, []), (type(None), [2])]


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
        gates = Gates(lambda waiting: len(waiting) // 2)
        calls = pool(at_once, lambda call: found.append(*call.results), gates.wait, order="none")
        for value in (1, 2, 3):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(1)
        assert (found, calls.in_flight) == ([], 3)
        while gates.open(at_all=True):
            await asyncio.sleep(1)

    run(work())
    assert found == [2, 3, 1]

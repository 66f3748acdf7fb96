"""Calls of batches: when a batch is sent, what its messages get, and in which order."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Batch, Limit, Pipeline, Retry
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.batch_pool import BatchPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.door import Door
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples

Fn = Callable[[Any], Awaitable[Any]]
COMING = st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.integers(0, 3)), max_size=30)
"""Keys, and the pause before each message, in seconds."""


def pool(fn: Fn, deliver: Callable[[Call], None], size: int, delay: float = 1.0, **options: Any) -> BatchPool:
    stream: Any = Pipeline("p").stream("in", value=int)
    batch = Batch(size=size, delay=timedelta(seconds=delay))
    operator = stream.async_flat_map(fn, id="call", batch=batch, **options).operator
    return BatchPool(operator, operator.call, deliver)


def run(work: Coroutine[Any, Any, Any]) -> float:
    """Run under virtual time until nothing is left to happen; returns the time then."""

    async def to_the_end() -> float:
        working = loop.create_task(work)
        await loop.quiet()
        while loop.jump():
            await loop.quiet()
        await working
        return loop.time()

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(to_the_end())
    finally:
        loop.close()


def outcome(call: Call) -> Any:
    return call.results if call.error is None else f"{type(call.error).__name__}: {call.error}"


def results(fn: Fn, *values: Any, size: int = 10, **options: Any) -> list[Any]:
    """What each of some messages gets that come at once, in the order in which they were handed on."""
    found: list[Call] = []

    async def work() -> None:
        calls = pool(fn, found.append, size, **options)
        for value in values:
            calls.submit(Call(None, value, None))

    run(work())
    return [outcome(call) for call in found]


async def doubled(values: list[int]) -> list[list[int]]:
    return [[value, value] for value in values]


class Noted:
    """Calls that take a second, with the time at which each began and its values."""

    def __init__(self, takes: float = 1.0) -> None:
        self.begun: list[tuple[float, list[Any]]] = []
        self.takes = takes

    async def call(self, values: list[Any]) -> list[list[Any]]:
        self.begun.append((asyncio.get_running_loop().time(), values))
        await asyncio.sleep(self.takes)
        return [[value] for value in values]


def test_each_message_gets_its_own_results() -> None:
    assert results(doubled, 1, 2, 3, size=2) == [[1, 1], [2, 2], [3, 3]]


def test_a_full_batch_is_sent_at_once_and_others_when_their_first_has_waited() -> None:
    noted = Noted()

    async def work() -> None:
        calls = pool(noted.call, lambda _: None, 2, delay=5)
        for value in range(5):
            calls.submit(Call(None, value, None))
            await asyncio.sleep(1)

    run(work())
    assert noted.begun == [(1.0, [0, 1]), (3.0, [2, 3]), (9.0, [4])]


def test_without_delay_what_comes_at_once_is_one_batch() -> None:
    noted = Noted()

    async def work() -> None:
        calls = pool(noted.call, lambda _: None, 5, delay=0)
        for value in range(7):
            calls.submit(Call(None, value, None))

    run(work())
    assert noted.begun == [(0.0, [0, 1, 2, 3, 4]), (0.0, [5, 6])]


def test_once_no_others_come_nothing_waits_for_company() -> None:
    noted = Noted()

    async def work() -> None:
        calls = pool(noted.call, lambda _: None, 4, delay=60)
        for value in range(3):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(1)
        calls.flush()

    run(work())
    assert noted.begun == [(1.0, [0, 1, 2])]


def test_a_batch_that_is_due_waits_for_room_and_is_sent_as_soon_as_there_is() -> None:
    noted = Noted(takes=3)

    async def work() -> None:
        calls = pool(noted.call, lambda _: None, 2, delay=1, max_in_flight=2)
        for value in range(5):
            calls.submit(Call(None, value, None))

    assert run(work()) == 9.0
    assert noted.begun == [(0.0, [0, 1]), (3.0, [2, 3]), (6.0, [4])]


@settings(max_examples=examples(200))
@given(COMING, st.sampled_from(["none", "key", "input"]), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_messages_keep_their_order_and_wait_no_longer_than_they_must(
    coming: list[tuple[bytes | None, int]], order: Any, size: int, times: int, delay: int
) -> None:
    came: dict[int, float] = {}
    begun: list[tuple[float, int]] = []
    found: list[tuple[bytes | None, int]] = []
    most = now = 0

    async def call(values: list[int]) -> list[list[int]]:
        nonlocal most, now
        assert 1 <= len(values) <= size
        now += len(values)
        most = max(most, now)
        begun.extend((asyncio.get_running_loop().time(), value) for value in values)
        await asyncio.sleep(1 + sum(values) % 3)
        now -= len(values)
        return [[value] for value in values]

    async def work() -> None:
        calls = pool(
            call,
            lambda call: found.append((call.key, *call.results)),
            size,
            delay,
            order=order,
            max_in_flight=size * times,
        )
        for number, (key, pause) in enumerate(coming):
            await asyncio.sleep(pause)
            came[number] = asyncio.get_running_loop().time()
            calls.submit(Call(key, number, None))

    run(work())
    assert most <= size * times
    assert sorted(number for _, number in found) == [*range(len(coming))]
    lanes: dict[str, list[list[bytes | None]]] = {"none": [], "key": [[b"a"], [b"b"]], "input": [[b"a", b"b", None]]}
    for lane in lanes[order]:
        numbers = [number for key, number in found if key in lane]
        assert numbers == sorted(numbers)
    if times * size >= 3 * len(coming) and order != "key":  # room for all
        assert all(time <= came[value] + delay for time, value in begun)


def test_a_result_that_is_an_exception_fails_its_message_alone() -> None:
    async def refused(values: list[int]) -> list[list[int] | Exception]:
        return [ValueError(f"no {value}") if value == 2 else [value] for value in values]

    assert results(refused, 1, 2, 3, retry=Retry(attempts=3)) == [[1], "ValueError: no 2", [3]]


def test_a_result_that_is_no_list_fails_its_message_alone() -> None:
    async def broken(values: list[int]) -> Any:
        return [value if value == 2 else (one for one in [value]) for value in values]

    assert results(broken, 1, 2, 3) == [[1], "TypeError: 'int' object is not iterable", [3]]


def test_a_generator_that_fails_fails_its_message_alone() -> None:
    def gives(value: int) -> Any:
        if value == 2:
            raise asyncio.CancelledError("gone")
        yield value

    async def broken(values: list[int]) -> Any:
        return [gives(value) for value in values]

    found = results(broken, 1, 2)
    assert (found[0], found[1].startswith(CancelledError.__name__)) == ([1], True)


def test_a_batch_that_raises_is_made_again_as_a_whole_and_then_fails_each_message() -> None:
    calls: list[list[int]] = []

    async def away(values: list[int]) -> list[list[int]]:
        calls.append(values)
        raise OSError("away")

    assert results(away, 1, 2, retry=Retry(attempts=2)) == ["OSError: away"] * 2
    assert calls == [[1, 2]] * 2


def test_a_batch_that_takes_too_long_fails_each_message() -> None:
    found = results(Noted(takes=9).call, 1, 2, timeout=timedelta(seconds=2))
    assert [text.split(":")[0] for text in found] == ["TimeoutError"] * 2


@pytest.mark.parametrize("given", [[], [[1]], [[1], [2], [3]]])
def test_too_few_or_too_many_results_fail_all_and_name_the_function(given: list[Any]) -> None:
    async def miscounted(_: list[int]) -> Any:
        return given

    found = results(miscounted, 1, 2, retry=Retry(attempts=2))
    count = f"{len(given)} result{'' if len(given) == 1 else 's'} for 2 values"
    assert found == [f"ValueError: miscounted returned {count}: with batch= it must return one for each"] * 2


@pytest.mark.parametrize("given", [{1: [1], 2: [2]}, {1, 2}, "ab", b"ab"])
def test_results_without_an_order_fail_all(given: Any) -> None:
    async def by_value(_: list[int]) -> Any:
        return given

    found = results(by_value, 1, 2)
    assert all(f"by_value returned {type(given).__name__}" in text and "in the order" in text for text in found)


def test_a_key_fills_a_batch_though_it_has_no_more_than_its_share() -> None:
    noted = Noted()

    async def work() -> None:
        calls = pool(noted.call, lambda _: None, 4, delay=60, max_in_flight=4)
        for value in range(8):
            calls.submit(Call(b"a", value, None))
        assert (calls.outstanding, calls.in_flight, calls.parked) == (4, 4, {"": 4})

    run(work())
    assert noted.begun == [(0.0, [0, 1, 2, 3]), (1.0, [4, 5, 6, 7])]


def test_after_cancel_nothing_is_sent_or_handed_on() -> None:
    noted, found = Noted(), list[Call]()

    async def work() -> None:
        calls = pool(noted.call, found.append, 2, delay=1)
        for value in range(3):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(0.5)
        calls.cancel()
        assert calls.in_flight == 0

    run(work())
    assert (noted.begun, found) == ([(0.0, [0, 1])], [])


def test_a_function_that_uses_its_list_up_gets_all_values_again_in_the_next_attempt() -> None:
    asked: list[list[int]] = []

    async def call(values: list[int]) -> list[list[int]]:
        asked.append([*values])
        answers = [[values.pop(0)] for _ in range(len(values))]
        if len(asked) == 1:
            raise OSError("busy")
        return answers

    assert results(call, 1, 2, 3, retry=Retry(attempts=2)) == [[1], [2], [3]]
    assert asked == [[1, 2, 3], [1, 2, 3]]


def test_a_commit_lets_batches_through_for_which_no_budget_is_left() -> None:
    found: list[Call] = []
    door = Door(Admission(Limit("service", budget=1)))
    stream: Any = Pipeline("p").stream("in", value=int)
    operator = stream.async_flat_map(doubled, id="call", batch=Batch(size=1)).operator

    async def work() -> None:
        calls = BatchPool(operator, operator.call, found.append, door=door)
        for value in (1, 2):
            calls.submit(Call(None, value, None))
        await asyncio.sleep(1)
        assert len(found) == 1
        calls.flush()

    run(work())
    assert [call.results for call in found] == [[1, 1], [2, 2]]

"""Plain functions in pools: whatever calls take, raise and kill, each has its own result, in the operator's order.

The oracle is the list of messages: what each gives, whatever happens to others, and which must come before which."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.pooled_functions import Part, played
from fluvial.dsl import PooledFunction, Retry, in_processes, in_threads
from fluvial.dsl.operators import AsyncCall, Order
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.cancellation import CallLoop
from fluvial.runtime.kernel.calls.door import PoolDoor
from generators.how_many import examples

THREADS, PROCESSES = in_threads(played, threads=3), in_processes(played, processes=2)
IN_THREADS = ("return", "return", "raise", "raise once")
IN_PROCESSES = (*IN_THREADS, "return", "lambda", "die", "die once")
ORDERS: tuple[Order, ...] = ("key", "input", "none")


class Operator:
    """Whose calls these are, as errors say it."""

    label, origin = "played", None


@pytest.fixture(scope="module")
def loop() -> Iterator[CallLoop]:
    """One for all examples: processes are started once, and stand what each example does to them."""
    made = CallLoop()
    made.begin()
    yield made
    made.end()


def parts(whats: tuple[Any, ...]) -> st.SearchStrategy[list[tuple[bytes | None, Any, int]]]:
    one = st.tuples(st.sampled_from((b"a", b"b", None)), st.sampled_from(whats), st.integers(0, 4))
    return st.lists(one, min_size=1, max_size=12)


async def calls(pooled: PooledFunction[..., Any], messages: list[Part], order: Order, at_once: int) -> list[Call]:
    """The calls of these messages as they are delivered."""
    ended, over = list[Call](), asyncio.Event()
    call = AsyncCall(
        fn=pooled,
        max_in_flight=at_once,
        order=order,
        timeout=600_000,
        retry=Retry(attempts=2, delay=timedelta(0)),
    )

    def deliver(call: Call) -> None:
        ended.append(call)
        if len(ended) == len(messages):
            over.set()

    pool = CallPool(Operator(), call, deliver, door=PoolDoor(pooled, None))
    for message in messages:
        pool.submit(Call(message.key, message, None))
    await over.wait()
    assert pool.in_flight == 0
    return ended


def check(ended: list[Call], messages: list[Part], order: Order) -> None:
    for call in ended:
        part: Part = call.value
        assert (call.error is not None) == part.fails, (part, call.error)
        assert call.results == ([] if part.fails else [part.number])
    numbers = [call.value.number for call in ended]
    assert sorted(numbers) == [part.number for part in messages]
    if order == "input":
        assert numbers == sorted(numbers)
    if order == "key":
        by_key = defaultdict[bytes, list[int]](list)
        for call in ended:
            if call.key is not None:
                by_key[call.key].append(call.value.number)
        assert all(one == sorted(one) for one in by_key.values())


def play(
    loop: CallLoop, folder: Path, pooled: PooledFunction[..., Any], drawn: list[Any], order: Order, at_once: int
) -> None:
    messages = [
        Part(number, key, what, millis, str(folder / str(number))) for number, (key, what, millis) in enumerate(drawn)
    ]
    check(loop.run(calls(pooled, messages, order, at_once)), messages, order)


@given(drawn=parts(IN_THREADS), order=st.sampled_from(ORDERS), at_once=st.integers(1, 8))
@settings(max_examples=examples(400), deadline=None)
def test_threads(
    loop: CallLoop, tmp_path_factory: pytest.TempPathFactory, drawn: list[Any], order: Order, at_once: int
) -> None:
    play(loop, tmp_path_factory.mktemp("marks"), THREADS, drawn, order, at_once)


@pytest.mark.slow
@given(drawn=parts(IN_PROCESSES), order=st.sampled_from(ORDERS), at_once=st.integers(1, 8))
@settings(max_examples=examples(100), deadline=None)
def test_processes(
    loop: CallLoop, tmp_path_factory: pytest.TempPathFactory, drawn: list[Any], order: Order, at_once: int
) -> None:
    play(loop, tmp_path_factory.mktemp("marks"), PROCESSES, drawn, order, at_once)

"""The pools of plain functions: how many calls run at once, what a given-up call keeps, and how a pool ends."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from engines.call_loops import in_loop
from fluvial.dsl import Breaker, Limit, NoProgressError, Pipeline, PooledFunction, Retry, in_threads, skip
from fluvial.dsl.operators import AsyncCall
from fluvial.runtime import KeyedExecutor, Settings, run
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.circuit import Circuit
from fluvial.runtime.kernel.calls.door import PoolDoor
from fluvial.runtime.kernel.calls.function_pools import DirectPool, FunctionPool, PoolUse, loop_pools
from fluvial.runtime.systems import MemorySystem
from waiting import wait_until


def threads_of_calls() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("fluvial-call")]


SECOND = timedelta(seconds=1)


class Slow:
    """A function that returns when it is told to, and counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.go_on = threading.Semaphore(0)
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, value: Any) -> list[Any]:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.go_on.acquire(timeout=60)
        with self._lock:
            self.running -= 1
        return [value]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def test_at_most_so_many_calls_run_at_once() -> None:
    slow = Slow()
    pooled = in_threads(slow, threads=2)

    async def main() -> list[Any]:
        calls = [asyncio.ensure_future(pooled(number)) for number in range(5)]
        await until(lambda: slow.running == 2)
        assert loop_pools(asyncio.get_running_loop()).uses() == [
            PoolUse("Slow.__call__", permits=2, taken=2, waiting=3)
        ]
        for _ in calls:
            slow.go_on.release()
        return [await call for call in calls]

    assert in_loop(main()) == [[0], [1], [2], [3], [4]]
    assert slow.most == 2


def test_a_call_that_is_given_up_keeps_its_thread_until_it_returns() -> None:
    slow = Slow()
    pooled = in_threads(slow, threads=1)

    async def main() -> list[Any]:
        first = asyncio.ensure_future(pooled("first"))
        await until(lambda: slow.running == 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(pooled("second"))
        await asyncio.sleep(0.01)
        assert (slow.running, slow.most, second.done()) == (1, 1, False)
        slow.go_on.release(2)
        return await second

    assert in_loop(main()) == ["second"]
    assert slow.most == 1


def test_errors_and_context_variables_are_those_of_the_call() -> None:
    name = ContextVar("name", default="nobody")

    def tell(value: str) -> str:
        told = name.get()
        name.set(value)
        if value == "wrong":
            raise LookupError(value)
        return told

    pooled = in_threads(tell, threads=1)

    async def main() -> list[str]:
        name.set("ann")
        told = [await pooled("bob"), await pooled("eve")]
        with pytest.raises(LookupError, match="wrong"):
            await pooled("wrong")
        return told

    assert in_loop(main()) == ["ann", "ann"]


def test_a_pool_ends_with_the_last_one_that_has_opened_it() -> None:
    pooled = in_threads(str, threads=2)

    async def main() -> None:
        before = len(threads_of_calls())
        await pooled.open()
        await pooled.open()
        await pooled(1)
        await pooled.close()
        assert await pooled(2) == "2"
        assert len(threads_of_calls()) > before
        await pooled.close()
        await pooled.close()  # of one who has not opened it
        await until(lambda: len(threads_of_calls()) <= before)

    in_loop(main())


def test_a_call_that_never_returns_does_not_keep_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()

    async def main() -> None:
        call = asyncio.ensure_future(in_threads(slow, threads=1)(1))
        await until(lambda: slow.running == 1)
        call.cancel()

    try:
        in_loop(main())
    finally:
        slow.go_on.release()
    assert "calls that have not returned are left behind: 1" in caplog.text


class Operator:
    """Whose calls these are, as errors say it."""

    label, origin = "calls", None


async def answers(
    pooled: PooledFunction[..., Any], number: int, door: PoolDoor | None = None, **options: Any
) -> list[Call]:
    """The calls of a pool for so many messages, once all have ended."""
    ended = list[Call]()
    rules: Any = {"timeout": 60_000, "retry": None, **options}
    call = AsyncCall(fn=pooled, max_in_flight=100, order="input", **rules)

    pool = CallPool(Operator(), call, ended.append, door=door or PoolDoor(pooled, None))
    for value in range(number):
        pool.submit(Call(None, value, None))
    await until(lambda: len(ended) == number)
    assert loop_pools(asyncio.get_running_loop()).waited_for(pooled).kept == 0  # type: ignore[union-attr]
    return ended


def test_to_wait_for_a_thread_costs_no_timeout() -> None:
    """The time of a call begins, and its try counts, once it has a thread."""
    slow = Slow()
    pooled = in_threads(slow, threads=1)

    async def main() -> tuple[int, Any]:
        other = asyncio.ensure_future(pooled("other"))
        await until(lambda: slow.running == 1)
        ended, mine = list[Call](), Call(None, "mine", None)
        call = AsyncCall(fn=pooled, max_in_flight=9, order="none", timeout=60_000, retry=None)
        pool = CallPool(Operator(), call, ended.append, door=PoolDoor(pooled, None))
        pool.submit(mine)
        await until(lambda: pool.in_flight == 1)
        assert mine.tries == 0
        slow.go_on.release(2)
        await other
        await until(lambda: ended == [mine])
        return mine.tries, mine.results

    assert in_loop(main()) == (1, ["mine"])


def test_a_call_is_made_again_while_its_thread_that_was_given_up_is_counted() -> None:
    stuck = threading.Event()
    begun = list[int]()

    def sometimes(value: int) -> list[int]:
        begun.append(value)
        if len(begun) == 1:
            stuck.wait(60)
        return [value]

    try:
        pooled = in_threads(sometimes, threads=2)
        retry = Retry(attempts=2, delay=timedelta(0))
        ended = in_loop(answers(pooled, 1, timeout=1000, retry=retry))
    finally:
        stuck.set()
    assert [call.results for call in ended] == [[0]]
    assert begun == [0, 0]


def test_a_run_leaves_no_thread_behind(caplog: pytest.LogCaptureFixture) -> None:
    def refused(text: str) -> list[str]:
        if text == "b":
            raise ValueError(text)
        return [text]

    before = len(threads_of_calls())
    streams = MemorySystem()
    streams.admin().create("in", 2)
    writing = streams.producer().begin()
    for partition in range(2):
        writing.append("in", partition, [(None, text.encode(), 1, ()) for text in "abc"])
    writing.commit()
    pipeline = Pipeline("plain", on_error=skip())
    texts = pipeline.stream("in", value=str)
    texts.async_flat_map(in_threads(refused, threads=3), id="call").send_to("out")
    report = run(pipeline, system=streams, until="end")
    assert (report.written, report.failed) == ({"out": 4}, {"call": 2})
    wait_until(lambda: len(threads_of_calls()) <= before, "the end of its threads")
    assert not caplog.records


def test_a_call_that_its_limit_refuses_takes_no_place() -> None:
    pooled = in_threads(lambda value: [value], threads=2)

    async def main() -> tuple[list[bool], int, int]:
        door = PoolDoor(pooled, Admission(Limit("once", budget=1, when_exhausted="error")))
        ended = await answers(pooled, 4, door=door)
        permits = loop_pools(asyncio.get_running_loop()).waited_for(pooled).permits  # type: ignore[union-attr]
        await until(lambda: permits.taken == 0)
        return [call.error is None for call in ended], permits.taken, permits.expected

    assert in_loop(main()) == ([True, False, False, False], 0, 0)


def test_few_messages_are_taken_for_calls_that_would_wait() -> None:
    slow = Slow()
    pooled = in_threads(slow, threads=2)

    async def main() -> list[int]:
        rooms, ended = list[int](), list[Call]()
        doors = [PoolDoor(pooled, None) for _ in range(2)]
        call = AsyncCall(fn=pooled, max_in_flight=9, order="none", timeout=60_000, retry=None)
        pools = [CallPool(Operator(), call, ended.append, door=door) for door in doors]
        for value in range(3):
            rooms.append(doors[1].room)
            pools[0].submit(Call(None, value, None))
        await until(lambda: slow.running == 2)
        rooms.append(doors[1].room)
        pools[0].cancel()  # one waits; the others run on in their threads
        rooms.append(doors[1].room)
        slow.go_on.release(2)
        await until(lambda: doors[1].room == 4)
        return rooms

    assert in_loop(main()) == [4, 3, 2, 1, 2]


@pytest.mark.parametrize("rests", [False, True])
def test_calls_that_wait_for_a_thread_are_not_held_up_by_what_others_share(*, rests: bool) -> None:
    """So the run stalls where no thread comes back."""
    slow, hour = Slow(), timedelta(hours=1)

    def fails(value: int) -> list[int]:
        slow(value)
        raise OSError("no answer")

    async def main() -> list[bool]:
        pooled, ended = in_threads(fails, threads=1), list[Call]()
        admission, circuit = Admission(Limit("few", calls=1, per=hour)), Circuit(Breaker("out", failures=1, rest=hour))
        door = PoolDoor(pooled, None, circuit) if rests else PoolDoor(pooled, admission)
        call = AsyncCall(fn=pooled, max_in_flight=9, order="none", timeout=60_000, retry=None)
        pool = CallPool(Operator(), call, ended.append, door=door)
        for value in range(2):
            pool.submit(Call(None, value, None))
        await until(lambda: slow.running == 1)
        if rests:
            circuit.leave(OSError(), tried=False)  # of another operator
        held = [pool.held_up]
        slow.go_on.release()
        await until(lambda: admission.waiting + circuit.waiting == 1)
        held.append(pool.held_up)
        pool.cancel()
        return held

    assert in_loop(main()) == [False, True]


@pytest.mark.parametrize("in_between", [False, True])
def test_calls_that_rest_keep_no_thread_from_other_operators(*, in_between: bool) -> None:
    """Also those that wait for a thread as their breaker opens."""
    slow, hour = Slow(), timedelta(hours=1)

    async def main() -> list[Any]:
        pooled, circuit = in_threads(slow, threads=1), Circuit(Breaker("out", failures=1, rest=hour))
        call = AsyncCall(fn=pooled, max_in_flight=9, order="none", timeout=60_000, retry=None)
        resting, ended = list[Call](), list[Call]()
        pool = CallPool(Operator(), call, resting.append, door=PoolDoor(pooled, None, circuit))
        door = PoolDoor(pooled, None)
        other = CallPool(Operator(), call, ended.append, door=door)
        other.submit(Call(None, "first", None))
        await until(lambda: slow.running == 1)
        await circuit.rested()
        if not in_between:
            circuit.leave(OSError(), tried=False)
        for value in range(3):
            pool.submit(Call(None, value, None))
        await until(lambda: pool.in_flight == 3)
        if in_between:
            circuit.leave(OSError(), tried=False)
        slow.go_on.release(2)
        async with asyncio.timeout(60):
            await until(lambda: door.room == 2)
            other.submit(Call(None, "second", None))
            await until(lambda: len(ended) == 2)
        assert (resting, circuit.waiting) == ([], 3)
        pool.cancel()
        await until(lambda: door.room == 2)
        return [one.results for one in ended]

    assert in_loop(main()) == [["first"], ["second"]]


@pytest.mark.slow
def test_a_run_whose_threads_are_all_taken_for_good_says_that_nothing_moves() -> None:
    go_on = threading.Event()

    def stuck(text: str) -> list[str]:
        go_on.wait(60)
        return [text]

    pipeline = Pipeline("stuck", on_error=skip())
    pooled = in_threads(stuck, threads=1)
    pipeline.stream("in", value=str).async_flat_map(pooled, id="call", timeout=0.05 * SECOND).send_to("out")
    streams = MemorySystem()
    streams.admin().create("in", 1)
    writing = streams.producer().begin()
    # Many, as a call that is given up before its thread begins gives its permit back.
    writing.append("in", 0, [(None, b"%d" % number, 1, ()) for number in range(50)])
    writing.commit()
    try:
        with pytest.raises(NoProgressError):
            run(pipeline, system=streams, settings=Settings(stall_timeout=SECOND), until="end")
    finally:
        go_on.set()


def test_an_executor_opens_and_ends_a_pool() -> None:
    async def main() -> list[int]:
        got, before = list[int](), len(threads_of_calls())
        pooled = in_threads(len, threads=2)
        async with KeyedExecutor(pooled, on_result=lambda _, result: got.append(result)) as executor:
            for text in ("a", "bb", "ccc"):
                await executor.submit(text)
        await until(lambda: len(threads_of_calls()) <= before)
        return sorted(got)

    assert asyncio.run(main()) == [1, 2, 3]


class Closing:
    """Work that has ended by itself once that was asked so many times."""

    def __init__(self, asked: int) -> None:
        self.asked, self.killed, self.winds_down = asked, False, False

    def prepare(self) -> None:
        """It is ready."""

    def wind_down(self) -> None:
        self.winds_down = True

    def dismiss(self) -> None:
        """It ends later."""

    def ended(self) -> bool:
        self.asked -= 1
        return self.asked <= 0

    def kill(self) -> None:
        self.killed = True


def test_what_a_pool_has_made_ready_is_ended_though_nobody_waits_for_that() -> None:
    work: Any = Closing(10**9)

    async def main() -> None:
        ending = asyncio.ensure_future(FunctionPool(in_threads(str, threads=1), work).end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending

    asyncio.run(main())
    assert work.killed


@pytest.mark.parametrize("users", [1, 2])
def test_a_pool_winds_down_where_its_last_user_does(users: int) -> None:
    work: Any = Closing(0)
    pooled = in_threads(str, threads=1)

    async def main() -> None:
        pools = loop_pools(asyncio.get_running_loop(), at_once=True)
        pools._pools[pooled] = DirectPool(work)
        for _ in range(users):
            await pools.open(pooled)
        pools.wind_down()

    asyncio.run(main())
    assert work.winds_down == (users == 1)


def test_what_ends_by_itself_under_virtual_time_has_the_time_for_it() -> None:
    work: Any = Closing(2)
    asyncio.run(DirectPool(work).end())
    assert (work.asked, work.killed) == (0, True)


def thread_of(_: str) -> threading.Thread:
    return threading.current_thread()


def test_a_pool_that_calls_have_made_ends_with_the_last_executor_of_the_loop() -> None:
    pooled, called = in_threads(thread_of, threads=1), list[threading.Thread]()

    async def call(text: str) -> None:
        called.append(await pooled(text))

    async def main() -> None:
        async with KeyedExecutor(call) as first:
            async with KeyedExecutor(call) as second:
                await second.submit("a")
            await first.submit("b")
        await asyncio.wait_for(until(lambda: not called[0].is_alive()), 60)
        assert called == [called[0]] * 2

    asyncio.run(main())


def test_a_pool_ends_though_the_block_of_its_executor_is_cancelled_twice() -> None:
    pooled, called = in_threads(thread_of, threads=1), list[threading.Thread]()

    async def main() -> None:
        executors, go_on = list[KeyedExecutor[str, None]](), asyncio.Event()

        async def deaf(text: str) -> None:
            called.append(await pooled(text))
            while not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()

        async def block() -> None:
            async with KeyedExecutor(deaf) as executor:
                executors.append(executor)
                await executor.submit("a")
                await asyncio.sleep(3600)

        working = asyncio.ensure_future(block())
        await until(lambda: bool(called))
        working.cancel()
        await until(lambda: executors[0]._closed)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await asyncio.wait_for(until(lambda: not called[0].is_alive()), 60)
        go_on.set()

    asyncio.run(main())

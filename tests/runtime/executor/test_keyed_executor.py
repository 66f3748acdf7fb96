"""The executor of a program's own loop: what it does with each kind of message, and with wrong use."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fluvial.dsl import Retry, dead_letter, skip
from fluvial.dsl.errors import FluvialError, MessageError, UsageError
from fluvial.runtime import KeyedExecutor, Submission

ORDERS = ("orders", 0)


def explained(raised: pytest.ExceptionInfo[FluvialError]) -> str:
    """The text of an error that says where, what was expected and what to do."""
    text = str(raised.value)
    assert f"{Path(__file__).name}:" in text
    assert "  expected: " in text
    assert "  to do: " in text
    return text


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def refused(number: int) -> int:
    if number == 2:
        raise ValueError("no such number")
    return await doubled(number)


async def for_ever(_: int) -> None:
    await asyncio.sleep(3600)


async def submit_all(executor: KeyedExecutor[int, Any], *numbers: int, key: Any = None) -> None:
    for number in numbers:
        await executor.submit(number, key=key, partition=ORDERS, offset=number)


async def in_its_block(executor: KeyedExecutor[int, Any], *numbers: int, key: Any = None) -> None:
    async with executor:
        await submit_all(executor, *numbers, key=key)
        await executor.drain()


async def left_by_an_error(executor: KeyedExecutor[int, Any]) -> None:
    async with executor:
        await submit_all(executor, 1)
        await asyncio.sleep(0)
        raise KeyError


def test_results_are_handed_over_with_what_was_submitted() -> None:
    found: list[tuple[Submission[int], int]] = []

    async def main() -> None:
        async with KeyedExecutor(doubled, on_result=lambda what, result: found.append((what, result))) as executor:
            await executor.submit(4, key="a", partition=ORDERS, offset=7)
            await executor.submit(5)

    asyncio.run(main())
    assert found == [(Submission(4, "a", ORDERS, 7), 8), (Submission(5), 10)]


def test_an_executor_fails_with_a_message_and_its_position_stays_in_front() -> None:
    async def main() -> None:
        executor = KeyedExecutor(refused)
        with pytest.raises(MessageError) as raised:
            await in_its_block(executor, 0, 1, 2, 3, key="a")
        told = explained(raised)
        assert "the call failed for key 'a', offset 2 of partition ('orders', 0): ValueError: no such" in told
        assert isinstance(raised.value.__cause__, ValueError)
        assert executor.position(ORDERS) == 2
        with pytest.raises(MessageError):
            await executor.submit(4)
        assert await executor.revoke(ORDERS) == 2

    asyncio.run(main())


def test_one_who_waits_for_room_is_told_of_the_failure() -> None:
    async def slow(number: int) -> None:
        await asyncio.sleep(0.01)
        raise ValueError(number)

    async def main() -> None:
        executor = KeyedExecutor(slow, max_in_flight=1, max_waiting=1)
        with pytest.raises(MessageError):
            await in_its_block(executor, *range(9))
        assert executor.positions == {ORDERS: 0}

    asyncio.run(main())


def test_a_message_is_skipped_after_its_attempts() -> None:
    told: list[tuple[int | None, str]] = []
    calls: list[int] = []

    async def counted(number: int) -> int:
        calls.append(number)
        return await refused(number)

    async def main() -> None:
        executor = KeyedExecutor(
            counted,
            retry=Retry(attempts=3, delay=timedelta(milliseconds=1)),
            on_error=skip(),
            on_skip=lambda what, error: told.append((what.offset, str(error))),
        )
        async with executor:
            await submit_all(executor, 1, 2, 3)
            await executor.drain()
            assert (executor.skipped, executor.position(ORDERS)) == (1, 4)

    asyncio.run(main())
    assert told == [(2, "no such number")]
    assert sorted(calls) == [1, 2, 2, 2, 3]


def test_only_errors_of_the_named_classes_are_skipped() -> None:
    async def main() -> None:
        executor = KeyedExecutor(refused, on_error=skip(on=(KeyError,)))
        with pytest.raises(MessageError, match="ValueError: no such number"):
            await in_its_block(executor, 1, 2, key="a")
        assert (executor.skipped, executor.position(ORDERS)) == (0, 2)

    asyncio.run(main())


@pytest.mark.parametrize("fails", ["on_result", "on_skip"])
def test_a_callback_that_raises_fails_the_executor(fails: str) -> None:
    def refuse(*_: object) -> None:
        raise KeyError("full")

    async def main() -> None:
        callbacks: dict[str, Any] = {fails: refuse}
        executor = KeyedExecutor(refused, on_error=skip(), **callbacks)
        with pytest.raises(MessageError, match=f"{fails} failed for key None"):
            await in_its_block(executor, 2, 3)
        assert executor.position(ORDERS) == (3 if fails == "on_result" else 2)

    asyncio.run(main())


def test_a_call_that_takes_too_long_is_an_error() -> None:
    async def main() -> None:
        async with KeyedExecutor(for_ever, timeout=timedelta(milliseconds=20), on_error=skip()) as executor:
            await submit_all(executor, 1)
            await executor.drain()
            assert executor.skipped == 1

    asyncio.run(main())


def test_a_block_that_is_left_by_an_error_cancels_its_calls() -> None:
    ended: list[str] = []

    async def told(_: int) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        executor = KeyedExecutor(told)
        with pytest.raises(KeyError):
            await left_by_an_error(executor)
        assert executor.position(ORDERS) == 1
        assert executor.in_flight == 0

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_a_slow_key_leaves_room_for_others() -> None:
    async def waits(_: int) -> None:
        await gate.wait()

    gate = asyncio.Event()

    async def main() -> None:
        async with KeyedExecutor(waits, max_in_flight=4, max_waiting=96, max_per_key=3) as executor:
            await submit_all(executor, 0, 1, 2, key="slow")
            waiting = asyncio.ensure_future(executor.submit(3, key="slow"))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await executor.submit(4, key="other")
            assert executor.in_flight == 5
            gate.set()
            await waiting

    asyncio.run(main())


def test_submit_waits_where_too_much_would_be_made_again() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def first_waits(number: int) -> None:
            if number == 0:
                await gate.wait()

        async with KeyedExecutor(first_waits, max_ahead=5) as executor:
            sending = asyncio.ensure_future(submit_all(executor, *range(20)))
            await asyncio.sleep(0.01)
            assert executor.position(ORDERS) == 0
            assert not sending.done()
            assert executor.in_flight == 1
            gate.set()
            await sending
            await executor.drain()
            assert executor.position(ORDERS) == 20

    asyncio.run(main())


def test_plain_functions_run_in_threads() -> None:
    together = threading.Barrier(3, timeout=10)
    threads: set[str] = set()

    def meet(number: int) -> int:
        together.wait()
        threads.add(threading.current_thread().name)
        return number

    found: list[int] = []

    async def main() -> None:
        record: Callable[[Submission[int], int], None] = lambda _, result: found.append(result)  # noqa: E731
        async with KeyedExecutor(meet, max_in_flight=3, threads=True, on_result=record) as executor:
            for number in range(6):
                await executor.submit(number, key=number)

    asyncio.run(main())
    assert sorted(found) == list(range(6))
    assert len(threads) >= 3


def test_a_revocation_waits_for_a_thread() -> None:
    began, ended = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        began.set()
        time.sleep(0.1)
        ended.set()

    async def main() -> None:
        async with KeyedExecutor(slow, threads=True) as executor:
            await submit_all(executor, 1)
            await asyncio.to_thread(began.wait, 10)
            assert await executor.revoke(ORDERS, grace=timedelta(0)) == 1
            assert ended.is_set()

    asyncio.run(main())


def test_a_revoked_partition_may_come_again_from_an_earlier_offset() -> None:
    async def main() -> None:
        async with KeyedExecutor(doubled) as executor:
            await submit_all(executor, 5, 6)
            with pytest.raises(UsageError, match=r"offset 5 of partition .* came after 6") as raised:
                await submit_all(executor, 5)
            explained(raised)
            assert await executor.revoke(ORDERS) == 7
            assert (executor.position(ORDERS), executor.positions) == (None, {})
            assert await executor.revoke(ORDERS) is None
            await submit_all(executor, 3)
            assert executor.position(ORDERS) == 3

    asyncio.run(main())


def test_messages_that_wait_for_a_revoked_one_of_their_key_are_dropped_with_it() -> None:
    found: list[int] = []

    async def slow(number: int) -> int:
        await asyncio.sleep(0.01 if number > 1 else 3600)
        return number

    async def main() -> None:
        async with KeyedExecutor(slow, on_result=lambda _, result: found.append(result)) as executor:
            await submit_all(executor, 1, 2, key="a")
            await executor.submit(3, key="a", partition=("orders", 1), offset=0)
            await asyncio.sleep(0.01)
            assert await executor.revoke(ORDERS, grace=timedelta(milliseconds=20)) == 1
            await executor.drain()
            assert executor.positions == {("orders", 1): 1}

    asyncio.run(main())
    assert found == [3]


def test_a_message_of_a_partition_that_goes_away_is_not_taken() -> None:
    async def main() -> None:
        async with KeyedExecutor(for_ever) as executor:
            await submit_all(executor, 1)
            revoking = asyncio.ensure_future(executor.revoke(ORDERS, grace=timedelta(milliseconds=20)))
            await asyncio.sleep(0)
            await submit_all(executor, 2)
            assert executor.in_flight == 1
            assert await revoking == 1

    asyncio.run(main())


WRONG: dict[str, dict[str, Any]] = {
    "without threads=True got the plain function": {"fn": lambda number: number},
    "with threads=True got the asynchronous function": {"fn": doubled, "threads": True},
    "threads=1": {"threads": 1},
    "order='partition'": {"order": "partition"},
    "max_in_flight=0": {"max_in_flight": 0},
    "max_ahead=None": {"max_ahead": None},
    "retry=3": {"retry": 3},
    "on_error=ErrorPolicy(action='dead_letter'": {"on_error": dead_letter()},
    "on_skip without on_error=skip()": {"on_skip": print},
    "on_result got the asynchronous function": {"on_result": doubled},
    "timeout is 5": {"timeout": 5},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_are_explained(wrong: str) -> None:
    given: dict[str, Any] = {"fn": doubled, **WRONG[wrong]}
    with pytest.raises(UsageError) as raised:
        KeyedExecutor(**given)
    assert wrong in explained(raised)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"partition": ORDERS}, "both, or none"),
        ({"offset": 3}, "both, or none"),
        ({"partition": ORDERS, "offset": -1}, "offset=-1"),
        ({"key": []}, "hashable"),
    ],
)
def test_wrong_submissions_are_explained(given: dict[str, Any], wrong: str) -> None:
    async def main() -> None:
        async with KeyedExecutor(doubled) as executor:
            with pytest.raises(UsageError) as raised:
                await executor.submit(1, **given)
            assert wrong in explained(raised)
            assert executor.in_flight == 0

    asyncio.run(main())


class Incomparable:
    """Has the hash of 1, and compares with nothing."""

    def __hash__(self) -> int:
        return hash(1)

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("it compares with nothing")


@pytest.mark.parametrize("given", [{"key": Incomparable()}, {"partition": Incomparable(), "offset": 0}])
def test_what_cannot_be_compared_is_refused_before_it_is_taken(given: dict[str, Any]) -> None:
    async def main() -> None:
        async with KeyedExecutor(doubled) as executor:
            await executor.submit(1, key=1, partition=1, offset=0)
            with pytest.raises(UsageError, match="it compares with nothing"):
                await executor.submit(2, **{"partition": 1, "offset": 1, **given})
            assert executor.in_flight == 1
            await executor.drain()
            assert executor.position(1) == 1

    asyncio.run(main())


class Untold:
    """Has no text."""

    def __repr__(self) -> str:
        raise LookupError("it has no text")


class UntoldError(Exception):
    """Has no text, either."""

    def __str__(self) -> str:
        raise LookupError("it has no text")


@pytest.mark.parametrize("error", [ValueError("no such number"), UntoldError()])
def test_an_executor_fails_though_a_key_or_an_error_has_no_text(error: Exception) -> None:
    async def fails(_: int) -> int:
        raise error

    async def main() -> None:
        executor, here = KeyedExecutor(fails), Untold()

        async def block() -> None:
            async with executor:
                await executor.submit(1, key=here, partition=here, offset=1)
                await executor.drain()

        with pytest.raises(MessageError) as raised:
            await asyncio.wait_for(block(), 60)
        assert "(Untold, whose __repr__ raises LookupError), offset 1 of partition (Untold" in str(raised.value)
        shown = ", whose __str__ raises LookupError" if isinstance(error, UntoldError) else f": {error}"
        assert f": {type(error).__name__}{shown}\n" in str(raised.value)
        assert raised.value.__cause__ is error
        assert executor.position(here) == 1

    asyncio.run(main())


def test_an_executor_is_used_within_one_block() -> None:
    async def main() -> None:
        executor = KeyedExecutor(doubled)
        with pytest.raises(UsageError, match="submit before its"):
            await executor.submit(1)
        async with executor:
            with pytest.raises(UsageError, match="entered again"):
                await executor.__aenter__()
        with pytest.raises(UsageError, match="submit after its"):
            await executor.submit(1)

    asyncio.run(main())


@pytest.mark.parametrize("raised", [asyncio.CancelledError("a future"), BaseExceptionGroup("g", [GeneratorExit()])])
def test_what_on_result_raises_ends_the_executor_though_it_is_no_exception(raised: BaseException) -> None:
    def told(_: Submission[int], __: int) -> None:
        raise raised

    async def main() -> None:
        executor = KeyedExecutor(doubled, on_result=told)
        with pytest.raises(MessageError, match="on_result failed for key None, offset 1"):
            await asyncio.wait_for(in_its_block(executor, 1), 60)
        assert executor.position(ORDERS) == 1

    asyncio.run(main())


def test_what_on_skip_raises_ends_the_executor_though_it_is_no_exception() -> None:
    def aside(_: Submission[int], __: Exception) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        executor = KeyedExecutor(refused, on_error=skip(), on_skip=aside)
        with pytest.raises(MessageError, match="on_skip failed"):
            await asyncio.wait_for(in_its_block(executor, 2), 60)

    asyncio.run(main())


@pytest.mark.parametrize("method", ["submit", "drain", "revoke"])
def test_another_event_loop_is_refused(method: str) -> None:
    async def main() -> None:
        async with KeyedExecutor(doubled) as executor:
            calls: dict[str, Callable[..., Any]] = {
                "submit": executor.submit,
                "drain": executor.drain,
                "revoke": executor.revoke,
            }
            given = () if method == "drain" else (1,)

            def elsewhere() -> None:
                asyncio.run(calls[method](*given))

            with pytest.raises(UsageError, match="used in another event loop") as raised:
                await asyncio.to_thread(elsewhere)
            assert "run_coroutine_threadsafe" in explained(raised)
            await submit_all(executor, 1)
            await executor.drain()
            assert executor.position(ORDERS) == 2

    asyncio.run(main())


def test_a_plain_function_that_raises_stop_iteration_fails_its_message_at_once() -> None:
    def first(items: list[int]) -> int:
        return next(iter(items))

    async def main() -> None:
        skipped: list[str] = []
        executor = KeyedExecutor(
            first, threads=True, on_error=skip(), on_skip=lambda _, error: skipped.append(str(error))
        )
        async with executor:
            await executor.submit([])
            await asyncio.wait_for(executor.drain(), 30)
        assert skipped == ["a call in a thread raised StopIteration()"]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["raises", "raises in a thread", "is too late"])
def test_a_message_that_waits_for_its_next_attempt_is_let_go_with_its_partition(how: str) -> None:
    tries: list[int] = []

    def refuse(number: int) -> int:
        tries.append(number)
        raise ValueError("no")

    async def refuse_later(number: int) -> int:
        return refuse(number)

    async def hang(number: int) -> None:
        tries.append(number)
        await for_ever(number)

    async def main() -> None:
        hour = timedelta(hours=1)
        retry = Retry(attempts=2, delay=hour, max_delay=hour)
        options: dict[str, dict[str, Any]] = {
            "raises": {"fn": refuse_later},
            "raises in a thread": {"fn": refuse, "threads": True},
            "is too late": {"fn": hang, "timeout": timedelta(milliseconds=1)},
        }
        async with KeyedExecutor[int, int](**options[how], retry=retry) as executor:
            await submit_all(executor, 1, key="k")
            while not tries or executor._running:
                await asyncio.sleep(0.01)
            assert await executor.revoke(ORDERS, grace=timedelta(0)) == 1
            await asyncio.wait_for(executor.drain(), 60)
            assert executor.in_flight == 0

    asyncio.run(main())


def test_a_pause_before_the_next_attempt_is_kept() -> None:
    tries: list[float] = []

    async def busy(number: int) -> int:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) == 1:
            raise ValueError("busy")
        return number

    retry = Retry(attempts=2, delay=timedelta(milliseconds=200))
    asyncio.run(in_its_block(KeyedExecutor(busy, retry=retry), 1))
    assert tries[1] - tries[0] >= 0.19

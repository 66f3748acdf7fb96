"""Timeouts of calls count the time in which the event loop runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Batch, Pipeline, Retry
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.loop_time import COUNTED_SECONDS, PULSE_SECONDS, loop_time
from fluvial.runtime.kernel.operators.remote_tables import RemoteTableClient
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples

HAIR = 0.001


class BlockedLoop(VirtualLoop):
    """A loop on virtual time that things may block."""

    pulse = PULSE_SECONDS

    def block(self, seconds: float) -> None:
        """Let time pass in which nothing else happens."""
        self._micros += round(seconds * 1e6)


def run(work: Callable[[BlockedLoop], Awaitable[None]]) -> None:
    """Run to the end."""

    async def to_the_end() -> None:
        working = asyncio.ensure_future(work(loop))
        await loop.quiet()
        while not working.done():
            loop.jump()
            await loop.quiet()
        await working

    loop = BlockedLoop()
    loop.run_until_complete(to_the_end())
    loop.close()


BLOCKS = st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 5)), max_size=5)
"""How long a loop runs, and then stands still; again and again."""


async def blocked(loop: BlockedLoop, blocks: list[tuple[float, float]]) -> None:
    for running, standing in blocks:
        await asyncio.sleep(running)
        loop.block(standing)


@settings(max_examples=examples(400))
@given(BLOCKS, st.floats(0.05, 2))
def test_an_alarm_rings_once_the_loop_has_run_for_so_long(blocks: list[tuple[float, float]], seconds: float) -> None:
    async def work(loop: BlockedLoop) -> None:
        fired = loop.create_future()
        clock, began = loop_time(loop), loop.time()
        stood = 0.0
        clock.call_later(seconds, lambda: fired.set_result(loop.time()))
        blocking = asyncio.ensure_future(blocked(loop, blocks))
        at = await fired
        run = 0.0
        for running, standing in blocks:
            run += running
            if run < seconds:
                stood += standing
        blocking.cancel()
        # A short time in which it stands still counts, and of a long one the time before the next pulse.
        longest = COUNTED_SECONDS + PULSE_SECONDS
        counted = sum(standing if standing <= longest else PULSE_SECONDS for _, standing in blocks)
        assert at - began >= seconds - counted - HAIR
        ran = at - began - sum(standing for _, standing in blocks)
        assert ran <= seconds + (len(blocks) + 2) * (PULSE_SECONDS + HAIR)

    run(work)


@pytest.mark.parametrize("timeout", [0.03, 0.1, 0.2])
def test_a_pause_that_is_longer_than_a_timeout_does_not_count(timeout: float) -> None:
    calls = ended([(0.01, 3.0), (0.01, 3.0)], timeout - 0.005, timeout=timedelta(seconds=timeout))
    assert [call.error for call in calls] == [None]


SLICES = st.lists(st.floats(0.001, COUNTED_SECONDS / 2), min_size=1, max_size=5)
"""How long a loop that works stands still at a time, again and again. It may come to its timers after the next one."""


@settings(max_examples=examples(400))
@given(SLICES, st.floats(0.05, 5))
def test_work_in_slices_counts(slices: list[float], seconds: float) -> None:
    async def work(loop: BlockedLoop) -> None:
        fired = loop.create_future()
        began = loop.time()
        loop_time(loop).call_later(seconds, lambda: fired.set_result(loop.time()))
        for standing in cycle(slices):
            if fired.done():
                break
            loop.block(standing)
            await asyncio.sleep(0)
        # Two slices may be over before the alarm is looked at, and once again where floats are added up.
        assert seconds - HAIR <= await fired - began <= seconds + 4 * max(slices) + HAIR

    run(work)


@settings(max_examples=examples(200))
@given(st.floats(0.3, 100), st.floats(0.05, 0.2))
def test_what_came_while_a_loop_stood_still_is_taken_in_before_a_call_times_out(pause: float, timeout: float) -> None:
    async def relayed(value: float) -> list[float]:
        await asyncio.sleep(value)
        for _ in range(5):  # as clients do, who hand on what has come
            await asyncio.sleep(0)
        return [value]

    found: list[Call] = []
    options: Any = {"timeout": timedelta(seconds=timeout)}
    operator: Any = Pipeline("p").stream("in", value=float).async_flat_map(relayed, id="call", **options).operator

    async def work(loop: BlockedLoop) -> None:
        CallPool(operator, operator.call, found.append).submit(Call(None, timeout / 2, None))
        await asyncio.sleep(timeout / 4)
        loop.block(pause)
        await asyncio.sleep(timeout)

    run(work)
    assert [call.error for call in found] == [None]


async def answer(value: float) -> list[float]:
    await asyncio.sleep(value)
    return [value]


def ended(blocks: list[tuple[float, float]], *values: float, **options: Any) -> list[Call]:
    """The calls that take so long, made all at once in a loop that is blocked meanwhile."""
    found: list[Call] = []
    operator: Any = Pipeline("p").stream("in", value=float).async_flat_map(answer, id="call", **options).operator

    async def work(loop: BlockedLoop) -> None:
        calls = CallPool(operator, operator.call, found.append)
        for value in values:
            calls.submit(Call(None, value, None))
        await blocked(loop, blocks)
        while len(found) < len(values):
            await asyncio.sleep(0.1)

    run(work)
    return found


@settings(max_examples=examples(200))
@given(BLOCKS, st.sampled_from(["none", "key", "input"]))
def test_calls_do_not_time_out_because_the_loop_stands_still(blocks: list[tuple[float, float]], order: Any) -> None:
    calls = ended(blocks, *[0.3] * 20, timeout=timedelta(seconds=1), order=order)
    assert [call.error for call in calls] == [None] * 20


def test_a_call_that_takes_too_long_times_out_though_the_loop_stood_still() -> None:
    (call,) = ended([(0.1, 4.0)], 9.0, timeout=timedelta(seconds=1))
    assert isinstance(call.error, TimeoutError)


@pytest.mark.parametrize(("seconds", "timed_out"), [(0.3, False), (9.0, True)])
@pytest.mark.parametrize("batched", [False, True])
def test_calls_of_remote_tables_have_the_same_time(*, seconds: float, timed_out: bool, batched: bool) -> None:
    async def read(key: Any) -> Any:
        await asyncio.sleep(seconds)
        return dict.fromkeys(key, 1) if batched else 1

    options: Mapping[str, Any] = {"batch": Batch(size=1)} if batched else {}
    table: Any = Pipeline("p").remote_table(
        "rows", read=read, timeout=timedelta(seconds=1), retry=Retry(attempts=1), **options
    )

    async def work(loop: BlockedLoop) -> None:
        remote = RemoteTableClient(table)
        reading = asyncio.ensure_future(remote.read("k"))
        await blocked(loop, [(0.1, 4.0), (0.1, 4.0)])
        if timed_out:
            with pytest.raises(TimeoutError):
                await reading
        else:
            assert await reading == 1

    run(work)


def test_a_loop_without_alarms_has_no_pulse() -> None:
    async def work(loop: BlockedLoop) -> None:
        clock = loop_time(loop)
        clock.call_later(1.0, lambda: None)
        clock.call_later(2.0, lambda: None).cancel()
        await asyncio.sleep(1.5)
        assert (clock.timers, clock._next) == (0, float("inf"))

    run(work)

"""A container that works leaves its event loop to calls soon, so that their timeouts come when they are due."""

import asyncio
import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.targets import write
from fluvial.dsl import Pipeline, skip
from fluvial.runtime import run
from fluvial.runtime.local.slices import SLICE, SLICE_SECONDS, Slice
from fluvial.runtime.systems import MemorySystem

MESSAGES = 3_000


@given(st.floats(1e-7, 1.0), st.lists(st.integers(0, 2 * SLICE), max_size=100))
def test_a_slice_takes_no_longer_than_it_may_or_has_one_message(pace: float, there: list[int]) -> None:
    own = Slice()
    for waiting in there:
        messages = min(own.messages, waiting)
        own.took(messages, messages * pace)
        assert 1 <= own.messages <= SLICE
        assert own.messages == 1 or not messages or own.messages * pace <= SLICE_SECONDS * (1 + 1e-9)


@given(st.floats(1e-7, SLICE_SECONDS / SLICE))
def test_fast_messages_soon_have_the_largest_slice(pace: float) -> None:
    own = Slice()
    for _ in range(10):
        own.took(own.messages, own.messages * pace)
    assert own.messages == SLICE


class Work:
    """A function that takes its time beside calls that never end, and which says how much of it was done by then."""

    def __init__(self) -> None:
        self.done = 0
        self.done_at_timeout: list[int] = []

    def slowly(self, number: int) -> int:
        time.sleep(0.001)
        self.done += 1
        return number

    async def never(self, number: int) -> list[int]:
        try:
            await asyncio.Event().wait()
        finally:
            self.done_at_timeout.append(self.done)
        return [number]


@pytest.mark.slow
def test_a_call_times_out_while_another_stage_works() -> None:
    work, system = Work(), MemorySystem()
    write(system, {"numbers": [[(None, b"%d" % number, 0, ()) for number in range(MESSAGES)]]})
    write(system, {"calls": [[(None, b"1", 0, ())]]})
    pipeline = Pipeline("p", on_error=skip())
    called = pipeline.stream("calls", value=int)
    called.async_flat_map(work.never, id="call", timeout=timedelta(seconds=0.3)).send_to("out")
    pipeline.stream("numbers", value=int).map(work.slowly).send_to("out")
    assert run(pipeline, system=system, until="end").failed == {"call": 1}
    (done,) = work.done_at_timeout
    assert (work.done, done < MESSAGES) == (MESSAGES, True)

"""Landing and checkpoints: never past a message that has not landed, always as far as the landed ones reach."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fluvial.dsl import AsyncCollector, AsyncStreamTask, Envelope, Pipeline, TaskCoordinator, skip
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.local.offset_tracker import OffsetTracker
from fluvial.runtime.testing import Ended, PipelineDriver
from generators.how_many import examples


class LandingMachine(RuleBasedStateMachine):
    """Batches with gaps between offsets begin in parts; messages land in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.landing = OffsetTracker(5)
        self.next = 5
        self.batches: list[tuple[Sequence[int], int]] = []  # offsets, and how many of them have begun
        self.in_flight: list[tuple[int, bytearray, int]] = []  # offset, and where its mark is
        self.begun: list[int] = []

    @rule(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=5))
    def read_batch(self, gaps: list[int]) -> None:
        if self.batches and self.batches[-1][1] < len(self.batches[-1][0]):
            return
        offsets = [self.next - 1 + sum(gaps[: number + 1]) for number in range(len(gaps))]
        self.batches.append((offsets, 0))
        self.next = offsets[-1] + 1

    @precondition(lambda self: self.batches)
    @rule(count=st.integers(1, 5))
    def begin(self, count: int) -> None:
        offsets, start = self.batches[-1]
        stop = min(start + count, len(offsets))
        if stop > start:
            marks = self.landing.begin(offsets, start, stop)
            self.in_flight += [(offset, marks, place) for place, offset in enumerate(offsets[start:stop])]
            self.begun += offsets[start:stop]
            self.batches[-1] = offsets, stop

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.in_flight) - 1))
        _, marks, place = self.in_flight.pop(index)
        marks[place] = 1

    @invariant()
    def position_is_at_the_first_message_in_flight(self) -> None:
        waiting = [offset for offset, _, _ in self.in_flight]
        last = self.begun[-1] + 1 if self.begun else 5
        assert self.landing.position() == min(waiting, default=last)


TestLanding = LandingMachine.TestCase
TestLanding.settings = settings(max_examples=examples(240), deadline=None)


async def odd_ones_fail(number: int) -> list[int]:
    await asyncio.sleep(0)
    if number % 2:
        raise ValueError(number)
    return [number]


class OddOnesFail(AsyncStreamTask[Any, int, int]):
    """The same as a stream task, which asks for a commit at each message."""

    async def process(
        self, envelope: Envelope[Any, int], collector: AsyncCollector[int], coordinator: TaskCoordinator
    ) -> None:
        coordinator.commit()
        for number in await odd_ones_fail(envelope.value):
            collector.send(number)


def calling(in_flight: int, *, by_task: bool) -> Pipeline:
    pipeline = Pipeline("calling", on_error=skip())
    source = pipeline.stream("in", value=int)
    if by_task:
        kind = type("Bounded", (OddOnesFail,), {"max_in_flight": in_flight})
        pipeline.task(kind, source, id="call").send_to("out", value=int)
    else:
        source.async_flat_map(odd_ones_fail, id="call", order="none", max_in_flight=in_flight).send_to("out")
    return pipeline


@settings(max_examples=examples(240), deadline=None)
@given(st.data(), st.integers(1, 4), st.lists(st.integers(1, 4), max_size=6), st.booleans())
def test_the_checkpoint_is_where_contiguous_landing_ends(
    data: Any, in_flight: int, sizes: list[int], by_task: bool
) -> None:
    landed: set[int] = set()
    sent = 0

    def choose(calls: Sequence[Ended]) -> int | None:
        index: int | None = data.draw(st.sampled_from([None, *range(len(calls))]))
        if index is not None:
            value = calls[index].value
            landed.add(value.value if by_task else value)
        return index

    never_waits = Settings(async_commit=True)
    pipeline = calling(in_flight, by_task=by_task)
    with PipelineDriver(pipeline, async_results=choose, commits="timed", settings=never_waits) as driver:
        for size in sizes:
            driver.records.send("in", [(None, b"%d" % number, 0, ()) for number in range(sent, sent + size)])
            sent += size
            driver.commit()
            kept = decode(driver._admin.checkpoints("calling")["in/0"], "in/0").offsets["in"]
            assert kept == next(number for number in range(sent + 1) if number not in landed)
            if data.draw(st.booleans(), label="crash"):
                driver.crash()
                landed = {number for number in landed if number < kept}
                driver.restart()
        driver.end()
        assert {message.value for message in driver.read("out")} == set(range(0, sent, 2))

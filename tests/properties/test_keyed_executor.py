"""The executor of a program's own loop: order, bounds and positions, whatever calls take, fail and are cancelled."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Retry, skip
from fluvial.runtime import KeyedExecutor, Submission
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples


class Sent(NamedTuple):
    """A message, how long its call takes, how often it fails before it succeeds, and how long `submit` may wait."""

    number: int
    key: str | None
    partition: int
    seconds: int
    failures: int
    patience: int


class Crash(Exception):
    """Stands for the death of the program."""


@dataclass
class Seen:
    """What calls did, and what is to hold at each moment."""

    begun: list[int] = field(default_factory=list)
    in_flight: set[Sent] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    handed: list[Sent] = field(default_factory=list)
    tries: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    most_at_once: int = 0
    most_inside: int = 0

    async def call(self, sent: Sent) -> int:
        assert sent.key is None or all(other.key != sent.key for other in self.in_flight), "two calls of one key"
        self.in_flight.add(sent)
        self.most_at_once = max(self.most_at_once, len(self.in_flight))
        self.begun.append(sent.number)
        self.tries[sent.number] += 1
        try:
            await asyncio.sleep(sent.seconds)
        finally:
            self.in_flight.discard(sent)
        if self.tries[sent.number] <= sent.failures:
            raise ConnectionError(sent.number)
        return sent.number

    def result(self, submission: Submission[Sent], result: int) -> None:
        self.handed.append(submission.value)
        self.finished.add(result)

    def skip(self, submission: Submission[Sent], error: Exception) -> None:
        assert isinstance(error, ConnectionError)
        self.result(submission, submission.value.number)


class Limits(NamedTuple):
    """Bounds of an executor."""

    max_in_flight: int
    max_waiting: int
    max_per_key: int
    max_ahead: int


LIMITS = st.builds(Limits, *(st.integers(1, 4) for _ in Limits._fields))
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.integers(0, 1),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=14,
).map(lambda drawn: [Sent(number, *one) for number, one in enumerate(drawn)])


def run(work: Callable[[], Awaitable[Any]], until: float = float("inf")) -> None:
    """Run under virtual time, up to a crash if there is one; what then waits for ever has lost a wake-up."""

    async def to_the_end() -> None:
        working = asyncio.ensure_future(work())
        await loop.quiet()
        while not working.done() and loop.time() - began < until and loop.jump():
            await loop.quiet()
        if not working.done():
            assert until < float("inf"), "nothing is left to happen, and somebody waits"
            working.cancel()
            await loop.quiet()
        with suppress(asyncio.CancelledError):
            working.result()

    loop = VirtualLoop()
    began = loop.time()
    loop.run_until_complete(to_the_end())
    loop.close()


def held(executor: KeyedExecutor[Sent, int], seen: Seen, sent: Sequence[Sent], most: int) -> None:
    """No position is past what has not finished, and no more is inside than may be."""
    seen.most_inside = max(seen.most_inside, executor.in_flight)
    assert executor.in_flight <= most
    for partition, position in executor.positions.items():
        behind = [one.number for one in sent if one.partition == partition and one.number < position]
        assert seen.finished.issuperset(behind), "a position is past a message that has not landed"


async def send_all(
    executor: KeyedExecutor[Sent, int], messages: Sequence[Sent], look: Callable[[Sequence[Sent]], None]
) -> None:
    for count, one in enumerate(messages, start=1):
        with suppress(TimeoutError):  # the message is taken, also where its caller gives up
            async with asyncio.timeout(one.patience or None):
                await executor.submit(one, key=one.key, partition=one.partition, offset=one.number)
        look(messages[:count])


def in_order(handed: Sequence[Sent], lane: Callable[[Sent], Any]) -> bool:
    lanes = defaultdict[Any, list[int]](list)
    for one in handed:
        if lane(one) is not None:
            lanes[lane(one)].append(one.number)
    return all(numbers == sorted(numbers) for numbers in lanes.values())


@settings(max_examples=examples(240), deadline=None)
@given(MESSAGES, LIMITS)
def test_a_key_is_in_order_and_the_position_reaches_the_end(messages: list[Sent], limits: Limits) -> None:
    seen = Seen()
    # Callers that gave up have a message each beyond the bounds.
    most = limits.max_in_flight + limits.max_waiting + 1 + sum(one.patience > 0 for one in messages)

    async def work() -> None:
        executor = KeyedExecutor(
            seen.call,
            **limits._asdict(),
            retry=Retry(attempts=2, delay=timedelta(seconds=1)),
            on_error=skip(),
            on_result=seen.result,
            on_skip=seen.skip,
        )
        async with executor:
            await send_all(executor, messages, lambda sent: held(executor, seen, sent, most))
            await executor.drain()
            assert executor.in_flight == 0
            for partition, position in executor.positions.items():
                assert position == max(one.number for one in messages if one.partition == partition) + 1
        assert executor.skipped == sum(one.failures >= 2 for one in messages)

    run(work)
    assert seen.finished == {one.number for one in messages}
    assert seen.most_at_once <= limits.max_in_flight
    assert in_order(seen.handed, lambda one: one.key)


@settings(max_examples=examples(120), deadline=None)
@given(MESSAGES, LIMITS, st.integers(0, 20))
def test_after_a_crash_each_message_is_processed_from_the_position(
    messages: list[Sent], limits: Limits, crash_at: int
) -> None:
    positions: dict[int, int] = {}
    before, after = Seen(), Seen()
    patient = [one._replace(patience=0, failures=0) for one in messages]

    async def first() -> None:
        executor = KeyedExecutor(before.call, **limits._asdict(), on_result=before.result)
        try:
            async with executor:
                await send_all(executor, patient, lambda _: None)
                await executor.drain()
        finally:
            positions.update(executor.positions)

    async def second() -> None:
        rest = [one for one in patient if one.number >= positions.get(one.partition, 0)]
        async with KeyedExecutor(after.call, **limits._asdict(), on_result=after.result) as executor:
            await send_all(executor, rest, lambda _: None)

    run(first, until=crash_at)
    run(second)
    assert not before.in_flight, "a call runs on behind the block"
    assert before.finished | after.finished == {one.number for one in messages}
    # What is processed twice is what was ahead of the position.
    assert len(before.finished & after.finished) <= 2 * (limits.max_ahead + 1)


@settings(max_examples=examples(120), deadline=None)
@given(MESSAGES, LIMITS, st.integers(0, 1), st.integers(0, 6), st.integers(0, 6))
def test_a_revoked_partition_lands_no_more_and_holds_nobody_up(
    messages: list[Sent], limits: Limits, revoked: int, at: int, grace: int
) -> None:
    seen = Seen()
    patient = [one._replace(patience=0, failures=0) for one in messages]
    told: list[tuple[int | None, list[int]]] = []

    async def revoke(executor: KeyedExecutor[Sent, int]) -> None:
        await asyncio.sleep(at)
        position = await executor.revoke(revoked, grace=timedelta(seconds=grace))
        told.append((position, [one.number for one in seen.in_flight if one.partition == revoked]))

    async def work() -> None:
        async with KeyedExecutor(seen.call, **limits._asdict(), on_result=seen.result) as executor:
            revoking = asyncio.ensure_future(revoke(executor))
            await send_all(executor, patient, lambda _: None)
            await revoking
            await executor.drain()

    run(work)
    ((position, running),) = told
    # A message that came after it opens the partition again, and may run.
    assert all(position is not None and number >= position for number in running)
    gone = {one.number for one in patient if one.partition == revoked and one.number >= (position or 0)}
    assert seen.finished | gone == {one.number for one in messages}
    assert in_order(seen.handed, lambda one: one.key)


@settings(max_examples=examples(80), deadline=None)
@given(MESSAGES, LIMITS)
def test_results_land_in_the_order_of_the_input_where_that_is_asked_for(messages: list[Sent], limits: Limits) -> None:
    seen = Seen()
    keyless = [one._replace(patience=0, failures=0, key=None) for one in messages]

    async def work() -> None:
        executor = KeyedExecutor(seen.call, **limits._asdict(), order="input", on_result=seen.result)
        async with executor:
            await send_all(executor, keyless, lambda sent: held(executor, seen, sent, 99))

    run(work)
    assert [one.number for one in seen.handed] == [one.number for one in messages]

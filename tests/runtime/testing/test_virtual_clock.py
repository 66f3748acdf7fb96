"""However far the driver's clock is moved at once, what is due by it happens at its time."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    Pane,
    Pipeline,
    Timer,
    after,
    after_count,
    any_of,
    collect,
    count,
    repeat,
    session,
    tumbling,
    unbounded,
)
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.virtual_clock import VirtualLoop

START = 1_700_000_000_000


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


class Ringing(KeyedProcessor[str, int, str]):
    """Each message sets a timer of the clock, and each that rings another."""

    clock = ClockTimers()

    def on_message(self, message: Message[int], context: Context[str]) -> None:  # noqa: ARG002
        self.clock.set("once", START + message.value)
        self.clock.set("again", START + message.value + 7)

    def on_timer(self, timer: Timer, context: Context[str]) -> Sequence[str]:  # noqa: ARG002
        if timer.name == "again":
            self.clock.set("again", timer.time + 70)
        return [f"{timer.name} {timer.time - START}"]


Stream = KeyedStream[str, int]


def value_of(pane: Pane[str, int]) -> int:
    return pane.value


def windowed(assigner: Any, **options: Any) -> Callable[[Stream], None]:
    return lambda stream: stream.window(assigner, count(), id="w", time="processing", **options).send_to("out")


EACH = repeat(after(first=ms(30)))
MADE: dict[str, Callable[[Stream], None]] = {
    "a repeated trigger": windowed(tumbling(ms(100)), trigger=EACH),
    "a trigger after the last": windowed(tumbling(ms(100)), trigger=repeat(after(last=ms(20)))),
    "any of two": windowed(tumbling(ms(100)), trigger=repeat(any_of(after(first=ms(30)), after_count(2)))),
    "sessions": windowed(session(ms(40)), trigger=EACH),
    "windows without end": windowed(unbounded(), trigger=EACH),
    "timers": lambda stream: stream.process(Ringing(), id="p").send_to("out", value=str),
    "windows behind windows": lambda stream: (
        stream.window(tumbling(ms(30)), count(), id="first", time="processing")
        .map(value_of)
        .window(tumbling(ms(50)), collect(), id="w", time="processing")
        .send_to("out")
    ),
}


def pipeline(name: str) -> Pipeline:
    made = Pipeline("stops")
    MADE[name](made.stream("in", key=str, value=int))
    return made


Message_ = tuple[int, int]
"""After how many ms it comes, and its value."""

MESSAGES = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 200)), max_size=4)
STEPS = st.lists(st.integers(1, 90), max_size=4)


def fired(name: str, messages: Sequence[Message_], pauses: Callable[[int], Sequence[int]]) -> list[Any]:
    with PipelineDriver(pipeline(name), start=START) as driver:
        for wait, value in [*messages, (250, 0)]:
            for pause in pauses(wait):
                driver.advance(ms(pause))
            driver.send("in", value, key="a")
        return [(message.value, message.timestamp) for message in driver.read("out")]


def at_once(duration: int) -> Sequence[int]:
    return [duration]


def by_the_ms(duration: int) -> Sequence[int]:
    return [1] * duration


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
@settings(max_examples=10)
@given(messages=MESSAGES, steps=STEPS)
def test_it_is_all_one_how_the_clock_is_moved(name: str, messages: list[Message_], steps: list[int]) -> None:
    def in_steps(duration: int) -> Sequence[int]:
        stops = [0, *(stop for stop in accumulate(steps) if stop < duration), duration]
        return [later - sooner for sooner, later in pairwise(stops)]

    whole = fired(name, messages, at_once)
    assert fired(name, messages, in_steps) == whole
    assert fired(name, messages, by_the_ms) == whole


def test_a_partition_is_idle_at_its_time() -> None:
    """A window that closes since nothing comes is counted at that time by the clock."""

    def counted(steps: Sequence[int]) -> list[Any]:
        made = Pipeline("idle")
        stream = made.stream("in", key=str, value=int, idle_after=ms(50))
        panes = stream.window(tumbling(ms(10)), count(), id="event").map(value_of)
        panes.window(tumbling(ms(100)), count(), id="clock", time="processing").send_to("out")
        with PipelineDriver(made, start=START) as driver:
            driver.send("in", 1, key="a", timestamp=5)
            for step in steps:
                driver.advance(ms(step))
            return [message.value.window.start - START for message in driver.read("out")]

    assert counted([1000]) == counted([10] * 100) == [0]


def test_calls_wait_beside_what_is_due_by_the_clock() -> None:
    """Up to the end, too: windows fire while calls are in flight."""

    async def slow(value: int) -> list[int]:
        await asyncio.sleep(value)
        return [value]

    made = Pipeline("beside")
    called = made.stream("in", value=int).async_flat_map(slow, id="slow", order="none")
    keyed = called.partition_by(lambda _: "a", id="by", key_type=str, value=int)
    keyed.window(tumbling(ms(500)), count(), id="w", trigger=EACH, time="processing").send_to("out")
    with PipelineDriver(made, start=START) as driver:
        driver.send("in", 0)
        driver.send("in", 2)
        driver.end()
        found = [(message.value.kind, message.value.window.start - START) for message in driver.read("out")]
        assert found == [("early", 0), ("on_time", 0), ("on_time", 2000)]


def test_a_message_has_the_time_of_the_clock_at_each_window() -> None:
    """Also where the clock has moved far since it was last told."""
    assert [pane.window.start - START for pane, _ in fired("windows behind windows", [(40, 1)], at_once)] == [50]


def test_a_loop_tells_whether_it_has_a_timer() -> None:
    loop = VirtualLoop()
    loop.call_later(2, lambda: None)
    loop.run_until_complete(loop.quiet())
    assert (loop.has_timer(1.9), loop.has_timer(2), loop.has_timer()) == (False, True, True)
    loop.close()

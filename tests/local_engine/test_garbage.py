"""What a run is done with goes at once, not with a round of Python's garbage collector, which is seldom while it runs.

Windows, rows and timers live for minutes: what they leave in cycles stays for hours, and a run seems to leak.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from engines.one_window import ms
from engines.sending import ProducingSystem
from engines.targets import write
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    KeyedStream,
    ListState,
    MapState,
    Message,
    MessageStream,
    Pipeline,
    Timer,
    ValueState,
    after_count,
    count,
    hopping,
    repeat,
    session,
    skip,
    tumbling,
    unbounded,
)
from fluvial.planner import Settings
from fluvial.runtime import run

Stream = KeyedStream[str, int]
SPARE = 50
"""Objects that one run may leave more than another: some lists grow with what is under way."""


class Remembers(KeyedProcessor[str, int, int]):
    seen = ValueState(int, 0, ttl=ms(100))
    last = ListState(int)
    known = MapState(int, int, ttl=ms(50))

    def on_message(self, message: Message[int], context: Context[str]) -> list[int]:
        self.seen.value += 1
        self.known[message.value] = self.seen.value
        if len(self.last) > 5:
            self.last.clear()
        self.last.append(message.value)
        context.timers.set("later", message.timestamp + 30)
        return [len(self.known)]

    def on_timer(self, timer: Timer, context: Context[str]) -> list[int]:  # noqa: ARG002
        return [timer.time]


class Shouts(KeyedProcessor[str, int, int]):
    def on_message(self, message: Message[int], context: Context[str]) -> list[int]:  # noqa: ARG002
        raise ValueError(message.value)


async def asked(value: int) -> list[int]:
    await asyncio.sleep(0)
    return [value]


async def refused(value: int) -> list[int]:
    await asyncio.sleep(0)
    raise ValueError(value)


def broken(value: int) -> int:
    raise ValueError(value)


def either(left: int | None, right: int | None) -> int:
    return (left or 0) + (right or 0)


def other(pipeline: Pipeline) -> Stream:
    return pipeline.stream("other", value=int, key=str)


MADE: dict[str, Callable[[Stream, Pipeline], MessageStream[Any]]] = {
    "map": lambda s, _: s.map(str),
    "failing": lambda s, _: s.map(broken),
    "tumbling": lambda s, _: s.window(tumbling(ms(100)), count(), id="w"),
    "lateness": lambda s, _: s.window(tumbling(ms(100)), count(), id="w", lateness=ms(300)),
    "hopping": lambda s, _: s.window(hopping(ms(100), ms(50)), count(), id="w"),
    "session": lambda s, _: s.window(session(ms(40)), count(), id="w"),
    "triggered": lambda s, _: s.window(tumbling(ms(100)), count(), id="w", trigger=after_count(2)),
    "triggered session": lambda s, _: s.window(session(ms(40)), count(), id="w", trigger=after_count(2)),
    "unbounded": lambda s, _: s.window(unbounded(), count(), id="w", trigger=repeat(after_count(2))),
    "join": lambda s, p: s.join(other(p), either, within=ms(50), how="outer", id="j"),
    "join of the latest": lambda s, p: s.join(other(p), either, within=ms(50), how="outer", id="j", retain="latest"),
    "table": lambda s, p: s.join(p.table("other", key=str, value=int), either, how="left", id="j"),
    "processor": lambda s, _: s.process(Remembers(), id="p"),
    "failing processor": lambda s, _: s.process(Shouts(), id="p"),
    "border": lambda s, _: s.partition_by(str, id="b", key_type=str).window(tumbling(ms(100)), count(), id="w"),
    "call": lambda s, _: s.async_flat_map(asked, id="a"),
    "failing call": lambda s, _: s.async_flat_map(refused, id="a"),
    "window behind a call": lambda s, _: s.async_flat_map(asked, id="a").window(session(ms(40)), count(), id="w"),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what the tests before have made need not be gone through
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def left_behind(name: str, messages: int) -> tuple[int, int]:
    """How many objects a run leaves to the collector, and how often it has committed."""
    system = ProducingSystem()
    system.batch = 50
    records = [(b"%d" % (number % 7), b"%d" % number, 10 * number, ()) for number in range(messages)]
    write(system, {"in": [records], "other": [records]})
    pipeline = Pipeline("p", on_error=skip())
    MADE[name](pipeline.stream("in", value=int, key=str), pipeline).map(str).send_to("out")
    gc.collect()
    report = run(pipeline, system=system, until="end", settings=Settings(commit_interval=timedelta(0)))
    return gc.collect(), report.checkpoints


@pytest.mark.slow
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", MADE)
def test_what_a_run_leaves_does_not_grow_with_its_messages(name: str) -> None:
    left_behind(name, 100)  # what is made once
    few, _ = left_behind(name, 200)
    many, commits = left_behind(name, 600)
    assert commits > 5
    assert many <= few + SPARE

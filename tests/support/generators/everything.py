"""A processor with one of each state, whose code each test brings."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from fluvial.dsl import (
    Context,
    ErrorPolicy,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pipeline,
    Serde,
    Tag,
    Tagged,
    Timer,
    ValueState,
    fail,
)
from fluvial.runtime.testing import PipelineDriver

Code = Callable[[Any, Message[str], Context[str]], Iterable[Any] | None]
Ring = Callable[[Any, Timer, Context[str]], Iterable[Any] | None]
HEX = Serde("hex", int, lambda number: b"%x" % number, lambda data: int(data, 16))


class Everything(KeyedProcessor[str, str, str]):
    """One of each state; what is done with them is for each test to say."""

    aside = Tag("aside", str)
    number = ValueState(int, 0)
    names = ValueState(list[str])
    hexed = ValueState(HEX)
    items = ListState(str)
    map = MapState(str, list[int])
    short = ValueState(str, ttl=timedelta(milliseconds=10))
    brief = ListState(int, ttl=timedelta(milliseconds=10))
    passing = MapState(int, str, ttl=timedelta(milliseconds=10))

    def __init__(
        self, code: Code, ring: Callable[[Any, Timer, Context[str]], Iterable[Any] | None] | None = None
    ) -> None:
        self.code = code
        self.ring = ring

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str | Tagged[Any]] | None:
        return self.code(self, message, context)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str | Tagged[Any]] | None:
        return None if self.ring is None else self.ring(self, timer, context)


def driver(
    code: Code,
    ring: Ring | None = None,
    on_error: ErrorPolicy = fail(),  # noqa: B008 - frozen
) -> PipelineDriver:
    pipeline = Pipeline("p", on_error=on_error)
    out = pipeline.stream("in", key=str, value=str).process(Everything(code, ring), id="it")
    out.send_to("out", value=str)
    out.tagged(Everything.aside).send_to("aside")
    return PipelineDriver(pipeline)


def values(driver: PipelineDriver, stream: str = "out") -> list[Any]:
    return [message.value for message in driver.read(stream)]


def sent(code: Code, *messages: tuple[str, str, int], ring: Ring | None = None, commits: bool = False) -> list[Any]:
    """What comes of messages: key, value, time; with a commit and a restart after each, if that is asked for."""
    with driver(code, ring) as one:
        for key, value, time in messages:
            one.send("in", value, key=key, timestamp=time)
            if commits:
                one.commit()
                one.restart()
        return values(one)


def one(code: Code, on_error: ErrorPolicy = fail()) -> Pipeline:  # noqa: B008 - frozen
    pipeline = Pipeline("p", on_error=on_error)
    pipeline.stream("in", key=str, value=str).process(Everything(code), id="it").send_to("out", value=str)
    return pipeline

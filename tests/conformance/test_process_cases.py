"""Conformance cases about processors: timers in event time, and side outputs."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import Context, KeyedProcessor, MapState, Message, Pipeline, Tag, Tagged, Timer, ValueState
from fluvial.dsl.message import Record


class Scheduler(KeyedProcessor[str, str, str]):
    """Does what a message says: `set NAME TIME` or `delete NAME`; tells which timers fire."""

    def on_message(self, message: Message[str], context: Context[str]) -> None:
        verb, name, *times = message.value.split()
        if verb == "set":
            context.timers.set(name, int(times[0]))
        else:
            context.timers.delete(name)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        yield f"{context.key} {timer.name} {timer.time} {context.timestamp}"


class Numbered(KeyedProcessor[str, str, str]):
    """Tells in which order the timers of a key fire."""

    fired = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> None:
        for time in (3, 2, 1):
            context.timers.set(f"{time}{message.value}", time)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        self.fired.value += 1
        yield f"{self.fired.value}: {timer.name}"


class Ticking(KeyedProcessor[str, str, str]):
    """Each timer sets the next one, until the third."""

    aside = Tag("aside", str)

    def on_message(self, message: Message[str], context: Context[str]) -> None:
        context.timers.set(message.value, message.timestamp + 10)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str | Tagged[str]]:
        if timer.time < 30:
            context.timers.set(timer.name, timer.time + 10)
        yield f"{timer.name} {timer.time}"
        yield self.aside(f"aside {timer.time}")


class Visits(KeyedProcessor[str, str, str]):
    """Counts words, each for as long as it comes again within 10 ms."""

    words = MapState(str, int, ttl=timedelta(milliseconds=10))

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        self.words[message.value] = self.words.get(message.value, 0) + 1
        yield " ".join(f"{word}{count}" for word, count in self.words.items())


def processed(processor: KeyedProcessor[str, str, str]) -> Pipeline:
    pipeline = Pipeline("processed")
    pipeline.stream("in", value=str, key=str).process(processor, id="processor").send_to("out", value=str)
    return pipeline


def scheduled() -> Pipeline:
    return processed(Scheduler())


def numbered() -> Pipeline:
    return processed(Numbered())


def visits() -> Pipeline:
    return processed(Visits())


def ticking() -> Pipeline:
    """What a timer emits reaches two outputs, and the side output a third."""
    pipeline = Pipeline("ticking")
    ticks = pipeline.stream("in", value=str, key=str).process(Ticking(), id="ticking")
    ticks.send_to("one", value=str)
    ticks.map(str.upper).send_to("two", value=str)
    ticks.tagged(Ticking.aside).send_to("aside", value=str)
    return pipeline


def split() -> Pipeline:
    pipeline = Pipeline("split")
    numbers = pipeline.stream("in", value=str, key=str).map(len)
    names = ("short", "middling", "long")
    for name, stream in zip(names, numbers.split(lambda size: size < 2, lambda size: size < 4), strict=True):
        stream.map(str).send_to(name, value=str)
    return pipeline


def rows(*messages: tuple[str, str, int]) -> list[Record]:
    """Records of keys, values and times."""
    return [(key.encode(), value.encode(), time, ()) for key, value, time in messages]


def out(*lines: str) -> dict[str, Sequence[bytes]]:
    return {"out": [line.encode() for line in lines]}


ROW = rows(("k", "", 0))

CASES = [
    Conformance("T11-in-the-order-of-their-times", numbered, {"in": [ROW]}, out("1: 1", "2: 2", "3: 3"), {}),
    Conformance(
        "T11-the-second-of-two-of-one-name",
        scheduled,
        {"in": [rows(("k", "set a 50", 0), ("k", "set a 70", 1), ("k", "set b 60", 2), ("k", "set b 40", 3))]},
        out("k a 70 70", "k b 40 40"),
        {},
    ),
    Conformance(
        "T11-what-is-deleted-does-not-fire",
        scheduled,
        {"in": [rows(("k", "set a 50", 0), ("k", "set b 50", 0), ("k", "delete a", 1), ("k", "delete c", 1))]},
        out("k b 50 50"),
        {},
    ),
    Conformance(
        "T11-each-key-has-its-own",
        scheduled,
        {"in": [rows(("k", "set a 50", 0), ("l", "set a 60", 0), ("l", "delete a", 1), ("m", "set a 50", 2))]},
        out("k a 50 50", "m a 50 50"),
        {},
    ),
    Conformance(
        "T12-each-follower-is-given-what-a-timer-emits-once",
        ticking,
        {"in": [rows(("k", "a", 0), ("k", "b", 100))]},
        {
            "one": [b"a 10", b"a 20", b"a 30", b"b 110"],
            "two": [b"A 10", b"A 20", b"A 30", b"B 110"],
            "aside": [b"aside 10", b"aside 20", b"aside 30", b"aside 110"],
        },
        {},
    ),
    Conformance(
        "ttl",
        visits,
        {"in": [rows(("k", "a", 0), ("k", "b", 5), ("k", "a", 9), ("k", "c", 15), ("k", "c", 19))]},
        out("a1", "a1 b1", "a2 b1", "a2 c1", "c2"),
        {},
    ),
    Conformance(
        "split",
        split,
        {"in": [rows(("k", "a", 0), ("k", "bcd", 1), ("k", "efghi", 2), ("k", "j", 3))]},
        {"short": [b"1", b"1"], "middling": [b"3"], "long": [b"5"]},
        {},
    ),
]


USUAL = ("T12-each-follower-is-given-what-a-timer-emits-once",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)

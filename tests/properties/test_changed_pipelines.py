"""Pipelines that are changed between two runs: what was pending comes, once, and as in a run without a break.

An operator that is left out for a run is judged by one that is always there and is given the same messages. Inputs that
are added in front of a window are judged by a model.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from changing import changed, restart_with
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    Pipeline,
    Timer,
    ValueState,
    after_count,
    collect,
    count,
    hopping,
    repeat,
    session,
    tumbling,
)
from fluvial.planner import plan
from fluvial.runtime.systems.contract import Batch
from fluvial.runtime.testing import PipelineDriver
from how_many import examples
from spark_in_process import queries
from targets import PATIENT

SIZE = timedelta(milliseconds=10)
LONG = timedelta(milliseconds=25)
Numbers = KeyedStream[str, int]
Add = Callable[[Numbers, Numbers], KeyedStream[str, Any]]
"""Adds the operator that is left out at times, with the id "w", behind two streams."""


class Reminder(KeyedProcessor[str, int, str]):
    """Reminds three times of each message, 7 ms apart."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str]:
        self.seen.value += 1
        for number in range(3):
            context.timers.set(f"{message.value}-{number}", message.timestamp + 7 * (number + 1))
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        yield f"{timer.name} at {timer.time}, {self.seen.value} seen"


class ClockReminder(KeyedProcessor[str, int, str]):
    """Reminds of each message 7 ms after it came."""

    clock = ClockTimers()

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        self.clock.set(f"{message.value}", message.timestamp + 7)
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        yield f"{timer.name} at {timer.time}"


def both(left: int | None, right: int | None) -> str:
    return f"{left}+{right}"


def windowed(assigner: Any, **options: Any) -> Add:
    return lambda one, other: one.merge(other).window(assigner, collect(), id="w", **options)


def of_one_stream(one: Numbers, other: Numbers) -> KeyedStream[str, Any]:
    other.send_to("aside")
    return one.window(tumbling(SIZE), collect(), id="w", lateness=SIZE)


KINDS: dict[str, Add] = {
    "tumbling": windowed(tumbling(SIZE)),
    "tumbling, late": windowed(tumbling(SIZE), lateness=LONG),
    "hopping": windowed(hopping(SIZE, every=SIZE / 2), lateness=SIZE),
    "sessions": windowed(session(SIZE)),
    "sessions, late": windowed(session(SIZE), lateness=LONG),
    "triggers": windowed(tumbling(SIZE), lateness=LONG, trigger=repeat(after_count(2)), late_trigger=after_count(2)),
    "sessions with triggers": windowed(session(SIZE), lateness=SIZE, trigger=repeat(after_count(2))),
    "of one stream": of_one_stream,
    "joins": lambda one, other: one.join(other, both, within=SIZE, how="outer", id="w"),
    "latest joins": lambda one, other: one.join(other, both, within=SIZE, how="left", retain="latest", id="w"),
    "timers": lambda one, other: one.merge(other).process(Reminder(), id="w"),
    "windows by the clock": windowed(tumbling(SIZE), time="processing"),
    "clock timers": lambda one, other: one.merge(other).process(ClockReminder(), id="w"),
}


def build(add: Add, *, present: bool) -> Pipeline:
    """A stage that stays whether or not the operator is there. It is given no message whose value is 0."""
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, key=str, value=int) for name in ("a", "b"))
    one.merge(other).window(tumbling(SIZE), count(), id="stays", time="processing").send_to("stays")
    if present:
        add(one.filter(bool), other.filter(bool)).send_to("out")
    return pipeline


Step = tuple[str, str, int] | int | Literal["leave out", "bring back"]
"""A message's stream, key and how far it lies from the time that there is; a pause in ms; or a restart."""

MESSAGE = st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), st.integers(-15, 15))
CHANGES: st.SearchStrategy[Step] = st.sampled_from(("leave out", "bring back"))
STEPS = st.lists(MESSAGE | MESSAGE | st.integers(1, 20) | CHANGES, max_size=25)
FURTHER_ON: list[Step] = [("a", "l", 15), ("b", "l", 15), ("a", "l", 1), 60]
DUE_MEANWHILE: list[Step] = [("a", "k", 0), ("b", "l", 0), "leave out", *FURTHER_ON, *FURTHER_ON, "bring back", 1]
"""All that the first two messages lead to falls due while the operator is left out."""


@dataclass
class Told:
    """What comes of the steps: messages as (stream, key, value, time), pauses, and where pipelines change."""

    steps: list[tuple[str, str, int, int] | int | bool] = field(default_factory=list)

    @classmethod
    def of(cls, steps: Sequence[Step]) -> "Told":
        made, time, present = cls(), 100, True
        for number, step in enumerate(steps, 1):
            if isinstance(step, tuple):
                stream, key, further = step
                made.steps.append((stream, key, number if present else 0, time + further))
                time = max(time, time + further)
            elif isinstance(step, int):
                made.steps.append(step)
            else:
                present = step == "bring back"
                made.steps.append(present)
        return cls([*made.steps, True])


def driven(kind: str, told: Told, *, changing: bool) -> tuple[list[str], int]:
    """What is emitted, and how many messages were late."""
    late = 0
    with PipelineDriver(build(KINDS[kind], present=True), start=100) as driver:
        for step in told.steps:
            if isinstance(step, bool):
                late += driver.report().late.get("w", 0)
                restart_with(driver, build(KINDS[kind], present=step or not changing))
            elif isinstance(step, int):
                driver.advance(timedelta(milliseconds=step))
            else:
                stream, key, value, time = step
                driver.send(stream, value, key=key, timestamp=time)
        late += driver.report().late.get("w", 0)
        driver.end()
        out = driver.records("out") if "out" in driver._admin.streams() else []
    return sorted(map(repr, out)), late


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=PATIENT)
@given(steps=STEPS)
@example(steps=DUE_MEANWHILE)
def test_an_operator_that_was_left_out_for_a_run_goes_on_with_what_it_had(kind: str, steps: list[Step]) -> None:
    told = Told.of(steps)
    assert driven(kind, told, changing=True) == driven(kind, told, changing=False)


def on_spark(kind: str, told: Told, *, changing: bool) -> tuple[list[str], int]:
    """The same in Spark's buckets, a message a batch."""
    partitions = {"a": 1, "b": 1}
    (query,) = queries(plan(build(KINDS[kind], present=True), partitions=partitions))
    offsets = dict.fromkeys(partitions, 0)
    query.now = 100
    for step in told.steps:
        if isinstance(step, bool):
            query = changed(query, build(KINDS[kind], present=step or not changing))
            query.batch([])
        elif isinstance(step, int):
            query.now += step
            query.batch([])
        else:
            stream, key, value, time = step
            at = offsets[stream]
            query.batch([Batch(stream, 0, range(at, at + 1), [(key.encode(), b"%d" % value, time, ())])])
            offsets[stream] += 1
    query.batch([], end=True)
    return sorted(map(repr, query.written.get("out", []))), query.tally.counts.get("late", {}).get("w", 0)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=PATIENT)
@given(steps=STEPS)
@example(steps=DUE_MEANWHILE)
def test_an_operator_that_was_left_out_on_spark_goes_on_with_what_it_had(kind: str, steps: list[Step]) -> None:
    told = Told.of(steps)
    assert on_spark(kind, told, changing=True) == on_spark(kind, told, changing=False)


MOST = 3
"""Sources that there are at most, named in the order in which they are added."""


@dataclass
class Producer:
    """What tells a window how far time is: the least of its parts, of which one that was added has told nothing."""

    highs: dict[int, int | None] = field(default_factory=dict)
    told: int | None = None

    def take(self, source: int, time: int) -> None:
        high = self.highs[source]
        self.highs[source] = time if high is None else max(high, time)
        self.tell()

    def tell(self) -> None:
        known = [one for one in self.highs.values() if one is not None]
        if len(known) == len(self.highs):
            self.told = max(min(known), min(known) if self.told is None else self.told)


@dataclass
class Model:
    """Tumbling windows of one key, whose time never goes back. `shown` are the panes as (kind, end, values)."""

    lateness: int
    producers: dict[int, Producer] = field(default_factory=dict)
    watermark: int = -(10**18)
    kept: dict[int, list[int]] = field(default_factory=dict)
    shown: list[tuple[str, int, list[int]]] = field(default_factory=list)
    late: int = 0
    gone: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def take(self, producer: int, source: int, time: int) -> None:
        end = time - time % 10 + 10
        if end + self.lateness <= self.watermark:
            self.late += 1
        else:
            self.kept.setdefault(end, []).append(time)
            if end <= self.watermark:
                self.show("late", end)
        self.producers[producer].take(source, time)
        self.follow()

    def change(self, sources: int, *, several: bool) -> None:
        """There are so many sources now. Each is a producer; or it has `several` partitions, one more than the one
        before it, and a producer reads the same partition of each. One that comes back goes on where it was."""
        parts = {(number if several else source, source) for source in range(sources) for number in range(source + 1)}
        for producer, source in parts:
            highs = self.producers.setdefault(producer, Producer()).highs
            highs.setdefault(source, self.gone.pop((producer, source), None))
        for number, one in [*self.producers.items()]:
            for source in [*one.highs]:
                if (number, source) not in parts:
                    self.gone[number, source] = one.highs.pop(source)
            if one.highs:
                one.tell()
            else:
                del self.producers[number]
        self.follow()

    def show(self, kind: str, end: int) -> None:
        self.shown.append((kind, end, sorted(self.kept[end])))

    def follow(self) -> None:
        told = [one.told for one in self.producers.values()]
        known = [one for one in told if one is not None]
        before = self.watermark
        if len(known) == len(told):
            self.watermark = max(before, min(known))
        for end in sorted(self.kept):
            if before < end <= self.watermark:
                self.show("on_time", end)
            if end + self.lateness <= self.watermark:
                del self.kept[end]


def merged(sources: int, lateness: int) -> Pipeline:
    """Sources that meet in front of a window; each is a producer."""
    pipeline = Pipeline("p")
    first, *more = [pipeline.stream(f"s{number}", key=str, value=int) for number in range(sources)]
    _window(first.merge(*more) if more else first, lateness)
    return pipeline


def spread(sources: int, lateness: int) -> Pipeline:
    """Sources that meet in front of a border. Each has a partition more than the one before: so has the border."""
    pipeline = Pipeline("p")
    first, *more = [pipeline.stream(f"s{number}", key=str, value=int) for number in range(sources)]
    together = first.merge(*more) if more else first
    _window(together.partition_by(lambda _: "k", id="by", key_type=str, value=int), lateness)
    return pipeline


def _window(keyed: Numbers, lateness: int) -> None:
    late = timedelta(milliseconds=lateness)
    keyed.window(tumbling(SIZE), collect(), id="w", lateness=late).send_to("out")


CHANGES_OF_SOURCES = st.sampled_from(("one more", "one less"))
FURTHER = st.tuples(st.integers(0, MOST - 1), st.integers(0, MOST - 1), st.integers(0, 60))


@pytest.mark.parametrize("make", [merged, spread])
@pytest.mark.parametrize("lateness", [0, 25])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=PATIENT)
@given(steps=st.lists(FURTHER | FURTHER | CHANGES_OF_SOURCES, max_size=30))
@example(steps=[(0, 0, 15), "one more", (1, 0, 15), (1, 1, 15), "one less", (0, 0, 35)])
@example(steps=[(0, 0, 15), "one more", (0, 0, 3), (1, 0, 40), (1, 1, 40), (0, 0, 45)])
def test_time_in_front_of_a_window_does_not_begin_anew_where_its_sources_change(
    make: Callable[[int, int], Pipeline], lateness: int, steps: list[tuple[int, int, int] | str]
) -> None:
    model, sources, late = Model(lateness, {0: Producer({0: None})}), 1, 0
    with PipelineDriver(make(1, lateness)) as driver:
        for step in steps:
            if isinstance(step, str):
                late += driver.report().late.get("w", 0)
                sources = min(MOST, sources + 1) if step == "one more" else max(1, sources - 1)
                restart_with(driver, make(sources, lateness), sources if make is spread else 1)
                model.change(sources, several=make is spread)
                continue
            source, partition, time = step[0] % sources, step[1], step[2]
            partition = partition % (source + 1) if make is spread else 0
            driver.send(f"s{source}", time, key="k", timestamp=time, partition=partition)
            model.take(partition if make is spread else source, source, time)
        panes = [pane.value for pane in driver.read("out")]
        found = sorted((pane.kind, pane.window.end, sorted(pane.value)) for pane in panes)
        assert (found, late + driver.report().late.get("w", 0)) == (sorted(model.shown), model.late)

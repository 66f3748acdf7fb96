"""Pipelines that are changed between two runs: what was pending comes, once, and as in a run without a break.

An operator that is left out for a run is judged by one that is always there and is given the same messages.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.spark_in_process import queries
from engines.targets import PATIENT
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
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver
from generators.changing import changed, restart_with
from generators.how_many import examples

SIZE = timedelta(milliseconds=10)
LONG = timedelta(milliseconds=25)
Numbers = KeyedStream[str, int]
Add = Callable[[Numbers, Any], KeyedStream[str, Any]]
"""Adds the operator that is left out at times, with the id "w", behind two streams, of which the second may be None."""


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
    return lambda one, other: merged_of(one, other).window(assigner, collect(), id="w", **options)


def merged_of(one: Numbers, other: Numbers | None) -> Numbers:
    return one if other is None else one.merge(other)


def of_one_stream(one: Numbers, other: Numbers | None) -> KeyedStream[str, Any]:
    if other is not None:
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
    "deduplication": lambda one, other: merged_of(one, other).deduplicate(SIZE, id="w"),
    "timers": lambda one, other: merged_of(one, other).process(Reminder(), id="w"),
    "windows by the clock": windowed(tumbling(SIZE), time="processing"),
    "clock timers": lambda one, other: merged_of(one, other).process(ClockReminder(), id="w"),
}


def behind_a_border(one: Numbers, other: Numbers | None) -> KeyedStream[str, Any]:
    keyed = merged_of(one, other).partition_by(lambda value: "kl"[value % 2], id="by", key_type=str, value=int)
    return keyed.window(tumbling(SIZE), collect(), id="w", lateness=SIZE)


STAGES: dict[str, Add] = {"behind a border": behind_a_border}
"""The operator is left out with its stage, which Spark refuses."""
JOINS = ("joins", "latest joins")
"""They need both streams."""


def build(add: Add, *, present: bool, both: bool = True) -> Pipeline:
    """A stage that stays whether or not the operator is there. It is given no message whose value is 0."""
    pipeline = Pipeline("p")
    streams = [pipeline.stream(name, key=str, value=int) for name in ("a", "b")[: 2 if both else 1]]
    one, other = (*streams, None)[:2]
    assert one is not None
    merged_of(one, other).window(tumbling(SIZE), count(), id="stays", time="processing").send_to("stays")
    if present:
        add(one.filter(bool), other and other.filter(bool)).send_to("out")
    return pipeline


Change = Literal["leave out", "bring back", "one source", "two sources"]
Step = tuple[str, str, int] | int | Change
"""A message's stream, key and how far it lies from the time that there is; a pause in ms; or a restart."""

MESSAGE = st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), st.integers(-15, 15))
CHANGES: st.SearchStrategy[Step] = st.sampled_from(("leave out", "bring back"))
OF_SOURCES: st.SearchStrategy[Step] = st.sampled_from(("one source", "two sources"))
STEPS = st.lists(MESSAGE | MESSAGE | st.integers(1, 20) | CHANGES, max_size=25)
FURTHER_ON: list[Step] = [("a", "l", 15), ("b", "l", 15), ("a", "l", 1), 60]
DUE_MEANWHILE: list[Step] = [("a", "k", 0), ("b", "l", 0), "leave out", *FURTHER_ON, *FURTHER_ON, "bring back", 1]
"""All that the first two messages lead to falls due while the operator is left out."""


@dataclass
class Phase:
    """How the pipeline is from here on."""

    present: bool = True
    both: bool = True


Told = list[tuple[str, str, int, int] | int | Phase]
"""What comes of the steps: messages as (stream, key, value, time), pauses, and where pipelines change."""


def told_by(steps: Sequence[Step]) -> Told:
    told, time, now = Told(), 100, Phase()
    for number, step in enumerate(steps, 1):
        if isinstance(step, tuple):
            stream, key, further = step
            if stream == "a" or now.both:
                told.append((stream, key, number if now.present else 0, time + further))
                time = max(time, time + further)
        elif isinstance(step, int):
            told.append(step)
        else:
            of_sources = step in ("one source", "two sources")
            now = Phase(now.present, step == "two sources") if of_sources else Phase(step == "bring back", now.both)
            told.append(now)
    return [*told, Phase(both=now.both)]


def driven(kind: str, told: Told, *, changing: bool) -> tuple[list[str], int]:
    """What is emitted, and how many messages were late."""
    late, add = 0, (KINDS | STAGES)[kind]
    with PipelineDriver(build(add, present=True), start=100) as driver:
        for step in told:
            if isinstance(step, Phase):
                late += driver.report().late.get("w", 0)
                restart_with(driver, build(add, present=step.present or not changing, both=step.both))
            elif isinstance(step, int):
                driver.advance(timedelta(milliseconds=step))
            else:
                stream, key, value, time = step
                driver.send(stream, value, key=key, timestamp=time)
        late += driver.report().late.get("w", 0)
        driver.end()
        out = driver.records.read("out") if "out" in driver._admin.streams() else []
    return sorted(map(repr, out)), late


@pytest.mark.parametrize("kind", KINDS | STAGES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=PATIENT)
@given(steps=STEPS)
@example(steps=DUE_MEANWHILE)
def test_an_operator_that_was_left_out_for_a_run_goes_on_with_what_it_had(kind: str, steps: list[Step]) -> None:
    told = told_by(steps)
    assert driven(kind, told, changing=True) == driven(kind, told, changing=False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS | STAGES if kind not in JOINS])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=PATIENT)
@given(steps=st.lists(MESSAGE | MESSAGE | CHANGES | OF_SOURCES, max_size=25))
def test_an_operator_that_was_left_out_finds_other_sources_as_if_it_had_been_there(
    kind: str, steps: list[Step]
) -> None:
    told = told_by(steps)
    assert driven(kind, told, changing=True) == driven(kind, told, changing=False)


def on_spark(kind: str, told: Told, *, changing: bool) -> tuple[list[str], int]:
    """The same in Spark's buckets, a message a batch."""
    partitions = {"a": 1, "b": 1}
    (query,) = queries(plan(build(KINDS[kind], present=True), partitions=partitions))
    offsets = dict.fromkeys(partitions, 0)
    query.now = 100
    for step in told:
        if isinstance(step, Phase):
            query = changed(query, build(KINDS[kind], present=step.present or not changing))
            query.batch([])
        elif isinstance(step, int):
            query.now += step
            query.batch([])
        else:
            stream, key, value, time = step
            at = offsets[stream]
            query.batch([RecordBatch(stream, 0, range(at, at + 1), [(key.encode(), b"%d" % value, time, ())])])
            offsets[stream] += 1
    query.batch([], end=True)
    return sorted(map(repr, query.written.get("out", []))), query.counts.by_kind.get("late", {}).get("w", 0)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=PATIENT)
@given(steps=STEPS)
@example(steps=DUE_MEANWHILE)
def test_an_operator_that_was_left_out_on_spark_goes_on_with_what_it_had(kind: str, steps: list[Step]) -> None:
    told = told_by(steps)
    assert on_spark(kind, told, changing=True) == on_spark(kind, told, changing=False)

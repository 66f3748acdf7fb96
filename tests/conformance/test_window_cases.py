"""Conformance cases about triggers, in event time: a later message of another key stands for Samza's tick."""

from collections.abc import Callable
from typing import Any

import pytest

from engines.comparing import OutputsDiffer
from engines.conformance import Conformance, Gap, check, events, on_targets, told
from engines.one_window import ms
from explained import assert_explains, error_of
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    Message,
    Pipeline,
    PipelineError,
    Timer,
    after,
    after_count,
    aggregate,
    any_of,
    count,
    hopping,
    repeat,
    session,
    tumbling,
    unbounded,
)
from fluvial.dsl.windows.assigners import Assigner

AT_BATCH_END = Gap(
    OutputsDiffer, "on Spark time moves at the end of a batch: what fires by time before then is shown later, or not"
)
BY_TIME = {"spark-log": AT_BATCH_END, "spark-kafka": AT_BATCH_END}


def windows(assigner: Assigner, **options: Any) -> Pipeline:
    pipeline = Pipeline("windows")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(assigner, count(), id="window", **options).map(told).send_to("out")
    return pipeline


def by_twos(**options: Any) -> Pipeline:
    return windows(tumbling(ms(1000)), trigger=repeat(after_count(2)), **options)


def by_twos_discarding() -> Pipeline:
    return by_twos(accumulate=False)


def two_once() -> Pipeline:
    return windows(tumbling(ms(1000)), trigger=after_count(2))


def two_or_half_a_second() -> Pipeline:
    return windows(tumbling(ms(1000)), trigger=any_of(after_count(2), after(first=ms(500))))


def soon_discarding() -> Pipeline:
    return windows(tumbling(ms(1000)), trigger=after(first=ms(300)), accumulate=False)


def nested() -> Pipeline:
    inner = any_of(after_count(6), after(first=ms(15)), after(first=ms(25)), after(last=ms(15)))
    trigger = repeat(any_of(after_count(23), after(first=ms(15)), inner))
    late = any_of(after_count(6), after(first=ms(15)))
    return windows(tumbling(ms(150)), trigger=trigger, late_trigger=late, lateness=ms(1000))


def after_the_last() -> Pipeline:
    return windows(tumbling(ms(1000)), trigger=repeat(after(last=ms(100))))


def late_by_twos() -> Pipeline:
    return windows(tumbling(ms(1000)), late_trigger=repeat(after_count(2)), lateness=ms(5000))


def in_hops() -> Pipeline:
    return windows(hopping(ms(1000), every=ms(500)))


def in_hops_by_twos() -> Pipeline:
    return windows(hopping(ms(1000), every=ms(500)), trigger=after_count(2))


def running() -> Pipeline:
    pipeline = Pipeline("running")
    keyed = pipeline.stream("in", value=str, key=str)
    panes = keyed.window(unbounded(), count(), id="window", trigger=repeat(after_count(1)))
    panes.map(lambda pane: f"{pane.kind} {pane.key} {pane.value}").send_to("out", value=str)
    return pipeline


def sessions_by_twos() -> Pipeline:
    return windows(session(ms(500)), trigger=repeat(after_count(2)), accumulate=False)


def text(*lines: str) -> dict[str, list[bytes]]:
    return {"out": [line.encode() for line in lines]}


FOUR = [("1", 1), ("2", 1)] * 4
CASES = [
    Conformance(
        "W01",
        by_twos_discarding,
        {"in": [events(*[("1", 1), ("2", 1)] * 2, ("3", 1))]},
        text("early 1 [0, 1000) 2", "early 2 [0, 1000) 2", "on_time 3 [0, 1000) 1"),
        {},
    ),
    Conformance(
        "W04",
        by_twos,
        {"in": [events(*FOUR, ("3", 1))]},
        text(
            *("early 1 [0, 1000) 2", "early 2 [0, 1000) 2", "early 1 [0, 1000) 4", "early 2 [0, 1000) 4"),
            *("on_time 1 [0, 1000) 4", "on_time 2 [0, 1000) 4", "on_time 3 [0, 1000) 1"),
        ),
        {},
    ),
    Conformance(
        "W07",
        two_once,
        {"in": [events(*[("1", 1)] * 5, ("3", 1001))]},
        text("early 1 [0, 1000) 2", "on_time 1 [0, 1000) 5", "on_time 3 [1000, 2000) 1"),
        {},
    ),
    Conformance(
        "W08",
        two_or_half_a_second,
        {"in": [events(*[("1", 1)] * 2, *[("1", 501)] * 3, ("1", 1001), ("t", 1501))]},
        text(
            *("early 1 [0, 1000) 2", "on_time 1 [0, 1000) 5"),
            *("early 1 [1000, 2000) 1", "on_time 1 [1000, 2000) 1", "on_time t [1000, 2000) 1"),
        ),
        {},
    ),
    Conformance(
        "W10",
        by_twos_discarding,
        {"in": [events(*[("1", 1)] * 5)]},
        text("early 1 [0, 1000) 2", "early 1 [0, 1000) 2", "on_time 1 [0, 1000) 1"),
        {},
    ),
    Conformance(
        "W13",
        by_twos,
        {"in": [events(*[("1", 1)] * 5)]},
        text("early 1 [0, 1000) 2", "early 1 [0, 1000) 4", "on_time 1 [0, 1000) 5"),
        {},
    ),
    Conformance(
        "W17",
        soon_discarding,
        {"in": [events(("1", 1), ("t", 301), ("1", 310))]},
        text("early 1 [0, 1000) 1", "on_time 1 [0, 1000) 1", "on_time t [0, 1000) 1"),
        BY_TIME,
    ),
    Conformance(
        "W21-without-a-mode-panes-accumulate",
        by_twos,
        {"in": [events(*[("1", 1)] * 3)]},
        text("early 1 [0, 1000) 2", "on_time 1 [0, 1000) 3"),
        {},
    ),
    Conformance(
        "W22-the-first-of-all-that-is-nested",
        nested,
        {"in": [events(*[("1", 1)] * 6, ("1", 10), ("t", 25), ("t", 160), *[("1", 20)] * 7)]},
        text(
            *("early 1 [0, 150) 6", "early 1 [0, 150) 7", "on_time 1 [0, 150) 7", "on_time t [0, 150) 1"),
            *("late 1 [0, 150) 13", "late 1 [0, 150) 14", "on_time t [150, 300) 1"),
        ),
        BY_TIME,
    ),
    Conformance(
        "W23-time-since-the-last-at-its-own-time",
        after_the_last,
        {"in": [events(("1", 0), ("1", 50), ("t", 149), ("1", 150), ("t", 251))]},
        text("early 1 [0, 1000) 3", "on_time 1 [0, 1000) 3", "on_time t [0, 1000) 2"),
        {},
    ),
    Conformance(
        "late-panes-by-twos-and-the-rest-at-the-end",
        late_by_twos,
        {"in": [events(("1", 0), ("t", 1000), *[("1", 1)] * 3)]},
        text("on_time 1 [0, 1000) 1", "late 1 [0, 1000) 3", "late 1 [0, 1000) 4", "on_time t [1000, 2000) 1"),
        BY_TIME,
    ),
    Conformance(
        "hopping",
        in_hops,
        {"in": [events(("1", 0), ("1", 600), ("1", 1200))]},
        text("on_time 1 [-500, 500) 1", "on_time 1 [0, 1000) 2", "on_time 1 [500, 1500) 2", "on_time 1 [1000, 2000) 1"),
        {},
    ),
    Conformance(
        "hopping-with-a-trigger",
        in_hops_by_twos,
        {"in": [events(("1", 0), ("1", 600))]},
        text(
            *("early 1 [0, 1000) 2", "on_time 1 [-500, 500) 1"),
            *("on_time 1 [0, 1000) 2", "on_time 1 [500, 1500) 1"),
        ),
        {},
    ),
    Conformance(
        "unbounded",
        running,
        {"in": [events(("1", 5_000_000), ("2", 0), ("1", 7))]},
        text("early 1 1", "early 2 1", "early 1 2", "on_time 1 2", "on_time 2 1"),
        {},
    ),
    Conformance(
        "sessions-with-a-trigger",
        sessions_by_twos,
        {"in": [events(("1", 0), ("1", 100), ("1", 200), ("1", 1000))]},
        text("early 1 [0, 601) 2", "on_time 1 [0, 701) 1", "on_time 1 [1000, 1501) 1"),
        {},
    ),
]


USUAL = ("late-panes-by-twos-and-the-rest-at-the-end", "sessions-with-a-trigger")


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)


class Ticking(KeyedProcessor[str, str, str]):
    """What has timers, and is no function."""

    def on_message(self, message: Message[str], context: Context[str]) -> list[str]:
        del context
        return [message.value]

    def on_timer(self, timer: Timer, context: Context[str]) -> list[str]:
        del context
        return [timer.name]


def source(**options: Any) -> Any:
    return Pipeline("p").stream("in", value=str, **options)


@pytest.mark.parametrize(
    "illegal",
    [
        lambda ticking: source().partition_by(ticking, id="by", key_type=str),
        lambda ticking: source(timestamp=ticking),
        lambda ticking: aggregate(ticking, lambda so_far, _: so_far, type=int),
        lambda ticking: aggregate(lambda: 0, ticking, type=int),
    ],
    ids=["key", "time", "initializer", "fold"],
)
def test_w24_what_has_timers_is_no_function_of_keys_times_or_aggregates(illegal: Callable[[Any], Any]) -> None:
    """Overruled: as a fold function it is refused, too; it is a processor, which `process` takes."""
    assert_explains(error_of(lambda: illegal(Ticking()), PipelineError), "got <", None, "a function", "pass a function")

"""Conformance cases about runs to the end of their input, one after the other: what fired at an end is remembered."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from engines.conformance import events, told
from engines.runs_in_a_row import OneRun, Runs, assert_each_run_writes_what_it_should, on_targets, words
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    Message,
    Pane,
    Pipeline,
    Timer,
    after_count,
    collect,
    count,
    hopping,
    repeat,
    session,
    tumbling,
    unbounded,
)
from fluvial.planner import Settings

TEN = timedelta(milliseconds=10)
NAME = "end"
EVER = f"[{-(2**62)}, {2**62})"


def counted(assigner: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline(NAME)
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(assigner, count(), id="w", **options).map(told).send_to("out")
    return pipeline


def sessions_behind_a_border() -> Pipeline:
    pipeline = Pipeline(NAME)
    keyed = pipeline.stream("in", value=str).partition_by(first_letter, id="by", key_type=str)
    keyed.window(session(TEN), collect(), id="w").map(told_with_replaced).send_to("out")
    return pipeline


def first_letter(text: str) -> str:
    return text[0]


def told_with_replaced(pane: Pane[str, list[str]]) -> str:
    replaced = "".join(f" for [{window.start}, {window.end})" for window in pane.replaces)
    return f"{told(pane)}{replaced}"


def outer_join() -> Pipeline:
    pipeline = Pipeline(NAME)
    letters = pipeline.stream("in", value=str, key=str)
    small, large = letters.filter(str.islower), letters.filter(str.isupper)
    small.join(large, joined, id="j", within=TEN, how="outer").send_to("out")
    return pipeline


def joined(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


class Reminder(KeyedProcessor[str, str, str]):
    """Sets a timer 10 ms behind each message."""

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:
        context.timers.set("reminder", message.timestamp + 10)
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        return (f"{context.key} {timer.time}",)


def timers() -> Pipeline:
    pipeline = Pipeline(NAME)
    pipeline.stream("in", value=str, key=str).process(Reminder(), id="p").send_to("out")
    return pipeline


def end(found: Any, *written: str) -> OneRun:
    return OneRun(found, {"out": written}, until="end")


CASES = [
    Runs(
        "a-window-goes-on-until-its-time-has-come",
        lambda: counted(tumbling(TEN)),
        [
            end([events(("a", 1), ("b", 2))], "on_time a [0, 10) 1", "on_time b [0, 10) 1"),
            end([events(("a", 3))], "on_time a [0, 10) 2"),
            end([[]]),
            end([events(("b", 30))], "on_time b [30, 40) 1"),  # nothing of [0, 10), which is over
            end([events(("a", 4), ("b", 31))], "on_time b [30, 40) 2"),  # the message of a is late
        ],
    ),
    Runs(
        "a-window-that-changed-fires-when-its-time-comes",
        lambda: counted(tumbling(TEN)),
        [
            end([events(("a", 1), ("b", 2))], "on_time a [0, 10) 1", "on_time b [0, 10) 1"),
            OneRun([events(("a", 3))], {}),
            OneRun([events(("a", 12))], {"out": ["on_time a [0, 10) 2"]}),
            end([[]], "on_time a [10, 20) 1"),
        ],
    ),
    Runs(
        "a-late-message-changes-a-window-that-has-fired-at-an-end",
        lambda: counted(tumbling(TEN), lateness=TEN),
        [
            end([events(("a", 1), ("b", 12))], "on_time a [0, 10) 1", "on_time b [10, 20) 1"),
            end([events(("a", 3))], "late a [0, 10) 2"),
            end([events(("b", 20))], "on_time b [20, 30) 1"),
            end([events(("a", 4))]),  # it is late
        ],
    ),
    Runs(
        "overlapping-windows-go-on",
        lambda: counted(hopping(TEN, timedelta(milliseconds=5))),
        [
            end([events(("a", 6))], "on_time a [0, 10) 1", "on_time a [5, 15) 1"),
            end([events(("a", 12))], "on_time a [5, 15) 2", "on_time a [10, 20) 1"),
            end([events(("b", 40))], "on_time b [35, 45) 1", "on_time b [40, 50) 1"),
        ],
    ),
    Runs(
        "early-panes-go-on",
        lambda: counted(tumbling(TEN), trigger=repeat(after_count(2))),
        [
            end([events(("a", 1))], "on_time a [0, 10) 1"),
            end([events(("a", 2), ("a", 3))], "early a [0, 10) 3", "on_time a [0, 10) 3"),
            end([events(("a", 30))], "on_time a [30, 40) 1"),
        ],
    ),
    Runs(
        "a-window-without-end-goes-on",
        lambda: counted(unbounded(), trigger=repeat(after_count(2))),
        [
            end([events(("a", 1))], f"on_time a {EVER} 1"),
            end([events(("b", 2))], f"on_time b {EVER} 1"),
            end([events(("a", 2), ("a", 3))], f"early a {EVER} 2", f"on_time a {EVER} 3"),
        ],
    ),
    Runs(
        "a-session-that-goes-on-replaces-what-it-was",
        sessions_behind_a_border,
        [
            end([words(("a1", 0)), words(("b1", 2))], "on_time a [0, 11) ['a1']", "on_time b [2, 13) ['b1']"),
            end([words(("a2", 9)), []], "on_time a [0, 20) ['a1', 'a2'] for [0, 11)"),
            end([[], words(("b2", 30))], "on_time b [30, 41) ['b2']"),
            end([words(("a3", 60)), []], "on_time a [60, 71) ['a3']"),
        ],
    ),
    Runs(
        "discarding-panes-hold-what-came-since",
        lambda: counted(tumbling(TEN), accumulate=False),
        [
            end([events(("a", 1))], "on_time a [0, 10) 1"),
            end([events(("a", 2))], "on_time a [0, 10) 1"),
            end([[]]),
        ],
    ),
    Runs(
        "windows-are-forgotten-where-settings-say-so",
        lambda: counted(tumbling(TEN)),
        [
            end([events(("a", 1))], "on_time a [0, 10) 1"),
            end([events(("a", 2))], "on_time a [0, 10) 1"),
            end([[]]),
        ],
        Settings(forget_at_end=True),
    ),
    Runs(
        "rows-without-a-match-are-told-once",
        outer_join,
        [
            end([words(("a", 0))], "a+None"),
            end([[]]),
            end([words(("A", 5))], "None+A"),
            end([words(("a", 40), ("A", 41))], "a+A"),
        ],
    ),
    Runs(
        "timers-that-fired-at-an-end-do-not-fire-again",
        timers,
        [
            end([events(("a", 1))], "a 11"),
            end([events(("b", 2))], "b 12"),
            end([events(("b", 40))], "b 50"),
        ],
    ),
]


@pytest.mark.parametrize(("case", "target"), on_targets(CASES))
def test_each_run_goes_on_from_the_end_of_the_last(case: Runs, target: str, request: pytest.FixtureRequest) -> None:
    assert_each_run_writes_what_it_should(case, target, request)

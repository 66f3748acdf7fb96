"""Conformance cases about runs that catch up: each reads what there is, and the next one goes on where it stopped."""

import asyncio
from datetime import timedelta

import pytest

from engines.conformance import events, told
from engines.runs_in_a_row import OneRun, Runs, assert_each_run_writes_what_it_should, on_targets, words
from fluvial.dsl import Pipeline, collect, count, session, tumbling

TEN = timedelta(milliseconds=10)


def windows() -> Pipeline:
    pipeline = Pipeline("cu")
    pipeline.stream("in", value=str, key=str).window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def windows_behind_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    keyed = pipeline.stream("in", value=str).partition_by(first_letter, id="by", key_type=str)
    keyed.window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def sessions_behind_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    keyed = pipeline.stream("in", value=str).partition_by(first_letter, id="by", key_type=str)
    keyed.window(session(TEN), collect(), id="w").map(told).send_to("out")
    return pipeline


def first_letter(text: str) -> str:
    return text[0]


async def later(text: str) -> list[str]:
    await asyncio.sleep(0.01)
    return [text]


def calls_in_front_of_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    called = pipeline.stream("in", value=str).async_flat_map(later, id="call")
    keyed = called.partition_by(first_letter, id="by", key_type=str, value=str)
    keyed.window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def unmatched(left: str, right: str | None) -> str:
    return f"{left}+{right}"


def outer_join() -> Pipeline:
    pipeline = Pipeline("cu")
    letters = pipeline.stream("in", value=str, key=str)
    small, large = letters.filter(is_lower), letters.filter(is_upper)
    small.join(large, unmatched, id="j", within=TEN, how="left").send_to("out")
    return pipeline


def is_lower(text: str) -> bool:
    return text.islower()


def is_upper(text: str) -> bool:
    return text.isupper()


CASES = [
    Runs(
        "a-window-waits-for-its-end",
        windows,
        [
            OneRun([events(("a", 1), ("a", 2))], {}),
            OneRun([events(("b", 9))], {}),
            OneRun([events(("b", 10))], {"out": ["on_time a [0, 10) 2", "on_time b [0, 10) 1"]}),
            OneRun([[]], {}),
            OneRun([events(("a", 3))], {}),
            OneRun([[]], {"out": ["on_time b [10, 20) 1"]}, until="end"),
        ],
    ),
    Runs(
        "a-partition-without-messages-holds-time-back",
        windows_behind_a_border,
        [
            OneRun([words(("a1", 1), ("a2", 25)), []], {}),
            OneRun([[], words(("b1", 2))], {}),
            OneRun([[], words(("b2", 30))], {"out": ["on_time a [0, 10) 1", "on_time b [0, 10) 1"]}),
        ],
    ),
    Runs(
        "a-session-goes-on-in-the-next-run",
        sessions_behind_a_border,
        [
            OneRun([words(("a1", 0)), words(("b1", 2))], {}),
            OneRun([words(("a2", 9)), []], {}),
            OneRun([[], words(("a3", 17))], {}),
            OneRun([words(("c1", 20)), []], {"out": ["on_time b [2, 13) ['b1']"]}),
            OneRun([words(("c2", 60)), words(("c3", 28))], {"out": ["on_time a [0, 28) ['a1', 'a2', 'a3']"]}),
        ],
    ),
    Runs(
        "calls-land-before-the-run-returns",
        calls_in_front_of_a_border,
        [
            OneRun([words(("a1", 0), ("a2", 1)), words(("a3", 2))], {}),
            OneRun([words(("a4", 10)), words(("b1", 11))], {"out": ["on_time a [0, 10) 3"]}),
        ],
    ),
    Runs(
        "a-row-may-still-be-joined",
        outer_join,
        [
            OneRun([words(("a", 0))], {}),
            OneRun([words(("A", 10))], {"out": ["a+A"]}),
            OneRun([words(("b", 21))], {}),
            OneRun([words(("C", 40))], {"out": ["b+None"]}),
        ],
    ),
]


@pytest.mark.parametrize(("case", "target"), on_targets(CASES))
def test_each_run_writes_what_has_come_due(case: Runs, target: str, request: pytest.FixtureRequest) -> None:
    assert_each_run_writes_what_it_should(case, target, request)

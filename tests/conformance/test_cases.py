"""Conformance cases with inputs and outputs, on every target: event-time versions of the cases of Apache Samza."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from engines.conformance import Conformance, Gap, check, events, on_targets, told
from fluvial.dsl import Batch, Pipeline, collect, count, dead_letter, session, skip, total, tumbling
from fluvial.dsl.windows.assigners import Assigner
from fluvial.runtime import call_key
from oracle.dispatcher import OracleFailure


def windows(assigner: Assigner, **options: Any) -> Pipeline:
    pipeline = Pipeline("windows")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(assigner, count(), id="window", **options).map(told).send_to("out")
    return pipeline


def in_tumbling() -> Pipeline:
    return windows(tumbling(timedelta(seconds=1)))


def in_sessions() -> Pipeline:
    return windows(session(timedelta(milliseconds=500)), accumulate=False)


def in_one_window() -> Pipeline:
    pipeline = Pipeline("one")
    keyed = pipeline.stream("in", value=str).partition_by(lambda _: "all", id="all", key_type=str)
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="window").map(told).send_to("out")
    return pipeline


def users_in_sessions() -> Pipeline:
    pipeline = Pipeline("users")
    keyed = pipeline.stream("in", value=str).partition_by(lambda user: user, id="user", key_type=str)
    counted = keyed.window(session(timedelta(seconds=3)), count(), id="window")
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    return pipeline


def repartitioned() -> Pipeline:
    pipeline = Pipeline("again")
    pipeline.stream("in", value=str).partition_by(lambda word: word, id="word", key_type=str).send_to("out")
    return pipeline


def numbers_to_a_border() -> Pipeline:
    pipeline = Pipeline("finite", on_error=skip())
    keyed = pipeline.stream("in", value=str).map(as_number).partition_by(lambda _: "all", id="by", key_type=str)
    keyed.send_to("out")
    return pipeline


def as_number(text: str) -> float:
    return float(text)


def numbers_within() -> Pipeline:
    """Where the type of an output is known, and where it is not."""
    pipeline = Pipeline("finite", on_error=skip())
    words = pipeline.stream("in", value=str)
    words.map(lambda text: {"deep": [float(text), None]}).send_to("out")
    words.map(within).send_to("typed")
    return pipeline


def within(text: str) -> dict[str, list[float | None]]:
    return {"deep": [float(text), None]}


def numbers_in_sums() -> Pipeline:
    """An accumulator may become what JSON does not have: its pane fails, and the others do not."""
    pipeline = Pipeline("finite", on_error=dead_letter())
    keyed = pipeline.stream("in", key=str, value=str)
    sums = keyed.window(tumbling(timedelta(seconds=1)), total(float), id="sum")
    sums.send_to("out")
    return pipeline


def long_numbers() -> Pipeline:
    """A message that fails, and is longer than a dead letter may be."""
    pipeline = Pipeline("long", on_error=dead_letter())
    pipeline.stream("in", value=int).send_to("out")
    return pipeline


def numbers_in_joins() -> Pipeline:
    pipeline = Pipeline("finite", on_error=skip())
    words = pipeline.stream("in", key=str, value=str).map(as_number)
    words.join(words.map(doubled), sum_of, id="both", within=timedelta(0)).send_to("out")
    return pipeline


def doubled(number: float) -> float:
    return 2 * number


def sum_of(one: float | None, other: float | None) -> float:
    return (one or 0) + (other or 0)


WITHOUT_VALUE: Any = [None, None]
NUMBERS = [
    (b"a", b"1.5", 1, ()),
    (b"a", b"inf", 1, ()),
    (b"b", b"2", 2, ()),
    (b"a", b"-inf", 3, ()),
    (b"c", b"nan", 4, ()),
]


async def if_even(number: int) -> list[int]:
    await asyncio.sleep(0)
    return [number] if number % 2 == 0 else []


async def with_key(number: int) -> list[str]:
    key = call_key()
    await asyncio.sleep(0)
    return [f"{number} {key}"]


def keys() -> Pipeline:
    """Two calls for each message."""
    pipeline = Pipeline("keys")
    source = pipeline.stream("in", value=int)
    both = source.merge(source.map(lambda number: number + 10))
    both.async_flat_map(with_key, id="call", order="none").send_to("out", value=str)
    return pipeline


async def even_of(numbers: list[int]) -> list[list[int] | Exception]:
    await asyncio.sleep(0)
    return [ValueError(f"no {number}") if number == 3 else await if_even(number) for number in numbers]


def batched() -> Pipeline:
    pipeline = Pipeline("batched", on_error=dead_letter())
    source = pipeline.stream("in", value=int)
    batch = Batch(size=2, delay=timedelta(milliseconds=1))
    source.async_flat_map(even_of, id="even", max_in_flight=4, order="input", batch=batch).send_to("out")
    return pipeline


def asynchronous() -> Pipeline:
    pipeline = Pipeline("async")
    pipeline.stream("in", value=int).async_flat_map(if_even, id="even", max_in_flight=1).send_to("out")
    return pipeline


def skipping() -> Pipeline:
    pipeline = Pipeline("skipping", on_error=skip())
    pipeline.stream("in", value=int).send_to("out")
    return pipeline


def skipping_what_is_no_share() -> Pipeline:
    """Division by zero is skipped; each stage has the policy."""
    pipeline = Pipeline("shares", on_error=skip(on=(ZeroDivisionError, msgspec.DecodeError)))
    shares = pipeline.stream("in", value=int).map(lambda number: 12 // number)
    halves = shares.partition_by(str, id="by-share", key_type=str, value=int).map(lambda share: 12 // (share - 1))
    halves.send_to("out")
    return pipeline


def only_odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def failing_panes() -> Pipeline:
    pipeline = Pipeline("panes", on_error=skip())
    keyed = pipeline.stream("in", value=str, key=str)
    odd = replace(count(), result=only_odd)
    for name, assigner in (("tumbling", tumbling(timedelta(seconds=1))), ("session", session(timedelta(seconds=1)))):
        keyed.window(assigner, odd, id=name).map(told).send_to(name)
    return pipeline


def merged() -> Pipeline:
    pipeline = Pipeline("merged")
    source = pipeline.stream("in", value=str)
    source.filter(lambda word: word > "b").merge(source.map(str.upper)).map(lambda word: word + "!").send_to(
        "out", value=str
    )
    return pipeline


def gathered() -> Pipeline:
    pipeline = Pipeline("gathered")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(timedelta(milliseconds=2)), collect(), id="window").map(told).send_to("out")
    return pipeline


def numbers(*values: int) -> list[Any]:
    return [(None, b"%d" % value, at, ()) for at, value in enumerate(values)]


def text(*lines: str) -> dict[str, list[bytes]]:
    return {"out": [line.encode() for line in lines]}


FIVE = [("1", 1), ("2", 1)] * 4 + [("3", 1)]
SESSIONS = [("1", 1), ("1", 1), ("2", 1001), ("2", 1001), ("3", 1001), ("3", 1001), ("2", 2001), ("2", 2001)]
CASES = [
    Conformance(
        "W02-in-event-time",
        in_one_window,
        {"in": [events(*[("x", 1)] * 9)]},
        text("on_time all [0, 1000) 9"),
        {},
    ),
    Conformance(
        "W04-without-triggers",
        in_tumbling,
        {"in": [events(*FIVE)]},
        text("on_time 1 [0, 1000) 4", "on_time 2 [0, 1000) 4", "on_time 3 [0, 1000) 1"),
        {},
    ),
    Conformance(
        "W05",
        in_sessions,
        {"in": [events(*SESSIONS)]},
        text(
            "on_time 1 [1, 502) 2", "on_time 2 [1001, 1502) 2", "on_time 3 [1001, 1502) 2", "on_time 2 [2001, 2502) 2"
        ),
        {},
    ),
    Conformance(
        "W06",
        in_sessions,
        {"in": [events(*[("1", 1)] * 2, *[("2", 1001)] * 4)]},
        text("on_time 1 [1, 502) 2", "on_time 2 [1001, 1502) 4"),
        {},
    ),
    Conformance(
        "W07-without-triggers",
        in_tumbling,
        {"in": [events(*[("1", 1)] * 5, ("3", 1001))]},
        text("on_time 1 [0, 1000) 5", "on_time 3 [1000, 2000) 1"),
        {},
    ),
    Conformance(
        "W11-at-the-end-of-input",
        in_sessions,
        {"in": [events(*[("1", 1)] * 2, *[("1", 1001)] * 2)]},
        text("on_time 1 [1, 502) 2", "on_time 1 [1001, 1502) 2"),
        {},
    ),
    Conformance("W12", in_sessions, {"in": [events(*[("1", 1)] * 4)]}, text("on_time 1 [1, 502) 4"), {}),
    Conformance(
        "W25-bounds-of-windows",
        gathered,
        {"in": [events(("a", 1), ("a", 2), ("b", 2), ("a", 3))]},
        text("on_time a [0, 2) ['a']", "on_time a [2, 4) ['a', 'a']", "on_time b [2, 4) ['b']"),
        {},
    ),
    Conformance(
        "W27-many-at-one-time",
        gathered,
        {"in": [events(*[("a", 1)] * 100, *[("a", 2)] * 100)]},
        text(f"on_time a [0, 2) {['a'] * 100}", f"on_time a [2, 4) {['a'] * 100}"),
        {},
    ),
    Conformance(
        "W28",
        users_in_sessions,
        {"in": [events(("u1", 1), ("u1", 2)), events(("u2", 1), ("u1", 3)), events(("u1", 4))]},
        text("u1 4", "u2 1"),
        {},
    ),
    Conformance(
        "E03",
        repartitioned,
        {"in": [events(*[(f"{partition}-{number}", number) for number in range(10)]) for partition in range(4)]},
        text(*[f"{partition}-{number}" for partition in range(4) for number in range(10)]),
        {},
    ),
    Conformance("E03-empty-partitions", repartitioned, {"in": [[], events(("a", 1)), []]}, text("a"), {}),
    Conformance("R01", repartitioned, {"in": [events(("a", 0)), events(("b", 1))]}, text("a", "b"), {}),
    Conformance("R24a", asynchronous, {"in": [numbers(*range(6))]}, text("0", "2", "4"), {}),
    Conformance(
        "call-keys",
        keys,
        {"in": [numbers(0, 1), numbers(2)]},
        text(
            "10 a3e2df549bd969b3c8e6285fa2d097f5",
            "0 07c53f19604bf61375281f860cdbec27",
            "11 0dc569a5818b6217280093a60e1cd5f1",
            "1 fcb8ea7d0c23c718926593da5e8c9a11",
            "12 1697eff1f343e1b26d0aa72866723d4d",
            "2 80726605c1b09d563120ad43397610e5",
        ),
        {"oracle": Gap(OracleFailure, "it makes calls without an engine, which has the keys")},
    ),
    Conformance(
        "R24-batched",
        batched,
        {"in": [numbers(*range(7))]},
        {"out": [b"0", b"2", b"4", b"6"], "batched-dead-letters": [b"3"]},
        {},
    ),
    Conformance(
        "R25-skipping",
        skipping,
        {"in": [[(None, b"bad", 0, ()), (None, b"7", 1, ())]]},
        text("7"),
        {},
    ),
    Conformance(
        "errors-of-some-classes-are-skipped",
        skipping_what_is_no_share,
        {"in": [[(None, value, 0, ()) for value in (b"0", b"bad", b"12", b"3", b"4")]]},
        text("4", "6"),
        {},
    ),
    Conformance(
        "panes-that-fail-are-skipped",
        failing_panes,
        {"in": [events(("a", 0), ("b", 0), ("b", 0), ("a", 1500), ("c", 3000))]},
        {
            "tumbling": [b"on_time a [0, 1000) 1", b"on_time a [1000, 2000) 1", b"on_time c [3000, 4000) 1"],
            "session": [b"on_time a [0, 1001) 1", b"on_time a [1500, 2501) 1", b"on_time c [3000, 4001) 1"],
        },
        {},
    ),
    Conformance("finite-at-a-border", numbers_to_a_border, {"in": [NUMBERS]}, text("1.5", "2.0"), {}),
    Conformance(
        "finite-within",
        numbers_within,
        {"in": [NUMBERS]},
        {
            "out": [b'{"deep":[1.5,null]}', b'{"deep":[2.0,null]}'],
            "typed": [b'{"deep":[1.5,null]}', b'{"deep":[2.0,null]}'],
        },
        {},
    ),
    Conformance(
        "finite-in-sums",
        numbers_in_sums,
        {"in": [NUMBERS]},
        {
            "out": [b'{"key":"b","window":{"start":0,"end":1000},"value":2.0,"kind":"on_time","replaces":[]}'],
            "finite-dead-letters": WITHOUT_VALUE,
        },
        {},
    ),
    Conformance(
        "long-dead-letter",
        long_numbers,
        {"in": [[(None, b"x" * 100_000, 0, ()), (None, b"7", 1, ())]]},
        {"out": [b"7"], "long-dead-letters": [b"x" * 65_536]},
        {},
    ),
    Conformance("finite-in-joins", numbers_in_joins, {"in": [NUMBERS]}, text("4.5", "6.0"), {}),
    Conformance("P18", merged, {"in": [events(("a", 0), ("c", 0))]}, text("A!", "C!", "c!"), {}),
]


USUAL = ("W02-in-event-time", "E03", "call-keys", "long-dead-letter")


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)

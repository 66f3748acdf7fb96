"""Conformance cases about what time fires into asynchronous calls: each pane and row is called for once, on every
engine, whether messages wait for it or not."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engines.conformance import Conformance, check, events, on_targets, told
from engines.one_window import ms
from fluvial.dsl import Pane, Pipeline, count, hopping, session, skip, tumbling
from fluvial.dsl.windows.assigners import Assigner

KEYS = tuple(f"k{number:02}" for number in range(30))


async def told_later(pane: Pane[str, int]) -> list[str]:
    await asyncio.sleep(0.001 * (sum(pane.key.encode()) % 3))
    if pane.key == "k13":
        raise OSError("down")
    return [told(pane)]


async def shouted(word: str) -> list[str]:
    await asyncio.sleep(0.001)
    return [word.upper()]


def panes(assigner: Assigner, exclusive: bool) -> Pipeline:
    pipeline = Pipeline("fired", on_error=skip())
    messages = pipeline.stream("in", value=str, key=str)
    fired = messages.window(assigner, count(), id="window", exclusive=exclusive)
    fired.async_flat_map(told_later, id="call", max_in_flight=4).send_to("out", value=str)
    messages.send_to("seen", value=str)
    return pipeline


def alone(exclusive: bool) -> Pipeline:
    """Left rows without partner go through calls."""
    pipeline = Pipeline("alone")
    left, right = (pipeline.stream(name, value=str, key=str) for name in ("left", "right"))

    def row(one: str, other: str | None) -> str:
        return f"{one} {other}"

    joined = left.join(right, row, id="join", within=ms(5), how="left", exclusive=exclusive)
    joined.async_flat_map(shouted, id="shout", max_in_flight=2).send_to("out", value=str)
    return pipeline


def text(*lines: str) -> list[bytes]:
    return [line.encode() for line in lines]


MESSAGES = [*((key, at) for at, key in enumerate(KEYS)), ("k00", 1000), ("k01", 1001), ("k13", 2500), ("k02", 5000)]
SEEN = text(*(key for key, _ in MESSAGES))
GOOD = [key for key in KEYS if key != "k13"]
LATER = ("on_time k00 [1000, 2000) 1", "on_time k01 [1000, 2000) 1", "on_time k02 [5000, 6000) 1")
SPANS: dict[Assigner, list[bytes]] = {
    tumbling(ms(1000)): text(*(f"on_time {key} [0, 1000) 1" for key in GOOD), *LATER),
    hopping(ms(2000), every=ms(1000)): text(
        *(f"on_time {key} [-1000, 1000) 1" for key in GOOD),
        *(f"on_time {key} [0, 2000) {2 if key in ('k00', 'k01') else 1}" for key in GOOD),
        *("on_time k00 [1000, 3000) 1", "on_time k01 [1000, 3000) 1"),
        *("on_time k02 [4000, 6000) 1", "on_time k02 [5000, 7000) 1"),
    ),
    session(ms(500)): text(
        *(f"on_time {key} [{at}, {at + 501}) 1" for key, at in MESSAGES if key != "k13"),
    ),
}


def cases(name: str, exclusive: bool) -> list[Conformance]:
    inputs = {"in": [events(*MESSAGES)]}
    fired = [
        Conformance(
            f"FIRING-{type(assigner).__name__.lower()}-{name}",
            partial(panes, assigner, exclusive),
            inputs,
            {"out": expected, "seen": SEEN},
            {},
        )
        for assigner, expected in SPANS.items()
    ]
    rows = {"left": [events(("a", 0), ("b", 1), ("a", 20), ("c", 40))], "right": [events(("b", 3), ("a", 40))]}
    expected = {"out": text("A NONE", "B B", "A NONE", "C NONE")}
    return [*fired, Conformance(f"FIRING-left-join-{name}", partial(alone, exclusive), rows, expected, {})]


CASES = [*cases("exclusive", exclusive=True), *cases("beside", exclusive=False)]


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, {"FIRING-tumbling-beside"}))
def test_a_case_on_a_target(case: Conformance, target: str, request: Any) -> None:
    check(case, target, request)

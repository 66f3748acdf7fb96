"""Conformance cases about joins of streams. Sides of one input stream, where the order of arrival matters."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import Pipeline, PipelineError
from fluvial.dsl.message import Record

LIFE = 600_000
"""How long a row is kept in Samza's cases, in ms."""


def paired(left: str | None, right: str | None) -> str:
    return f"L{left}R{right}"


def joined(how: Any = "inner", retain: Any = "all", within: int = LIFE) -> Pipeline:
    pipeline = Pipeline("joined")
    left, right = (pipeline.stream(name, value=str, key=str) for name in ("left", "right"))
    both = left.join(right, paired, id="both", within=timedelta(milliseconds=within), how=how, retain=retain)
    both.send_to("out", value=str)
    return pipeline


def latest(how: Any = "inner") -> Pipeline:
    """The sides are what begins with l and with r, in the order of arrival."""
    pipeline = Pipeline("latest")
    events = pipeline.stream("in", value=str, key=str)
    left, right = events.filter(lambda text: text.startswith("l")), events.filter(lambda text: text.startswith("r"))
    life = timedelta(milliseconds=LIFE)
    left.join(right, paired, id="both", within=life, how=how, retain="latest").send_to("out", value=str)
    return pipeline


def latest_left() -> Pipeline:
    return latest("left")


def latest_outer() -> Pipeline:
    return latest("outer")


def all_left() -> Pipeline:
    return joined("left", within=10)


def all_outer() -> Pipeline:
    return joined("outer", within=10)


def rows(*messages: tuple[str, str, int]) -> list[Record]:
    """Records of keys, values and times."""
    return [(key.encode(), value.encode(), time, ()) for key, value, time in messages]


def numbers(prefix: str = "", time: int = 0, first: int = 1) -> list[tuple[str, str, int]]:
    """A row for each of ten keys."""
    return [(str(number), f"{prefix}{number}", time) for number in range(first, first + 10)]


def out(*lines: str) -> dict[str, Sequence[bytes]]:
    return {"out": [line.encode() for line in lines]}


def one_to_ten(form: str) -> dict[str, Sequence[bytes]]:
    return out(*(form.format(number) for number in range(1, 11)))


CASES = [
    Conformance(
        "J01", joined, {"left": [rows(*numbers())], "right": [rows(*numbers(time=5))]}, one_to_ten("L{0}R{0}"), {}
    ),
    Conformance(
        "J02", joined, {"left": [rows(*numbers(time=5))], "right": [rows(*numbers())]}, one_to_ten("L{0}R{0}"), {}
    ),
    Conformance(
        "J03-the-left-row-is-the-first-argument",
        latest,
        {"in": [rows(*numbers("r"), *numbers("l", 1))]},
        one_to_ten("Ll{0}Rr{0}"),
        {},
    ),
    Conformance("J04", joined, {"left": [rows(*numbers())], "right": [rows(*numbers(first=101))]}, out(), {}),
    Conformance(
        "J06",
        latest,
        {"in": [rows(*numbers("r"), *numbers("r2", 1), *numbers("l", 2))]},
        one_to_ten("Ll{0}Rr2{0}"),
        {},
    ),
    Conformance(
        "W26-the-last-of-one-time-stays",
        latest,
        {"in": [rows(("k", "la", 1), ("k", "la", 2), ("k", "lb", 2), ("k", "r", 2))]},
        out("LlbRr"),
        {},
    ),
    Conformance(
        "J07-a-row-that-has-joined-joins-again",
        latest,
        {"in": [rows(*numbers("l"), *numbers("r", 1), *numbers("l", 2), *numbers("r", 3))]},
        {"out": [*one_to_ten("Ll{0}Rr{0}")["out"]] * 3},
        {},
    ),
    Conformance(
        "J08-what-is-as-old-as-that-has-expired",
        latest,
        {"in": [rows(*numbers("l"), ("t", "x", LIFE), *numbers("r", LIFE))]},
        out(),
        {},
    ),
    Conformance(
        "J10-without-anything-in-between",
        latest,
        {"in": [rows(*numbers("l"), *numbers("r", LIFE + 60_000))]},
        out(),
        {},
    ),
    Conformance(
        "all-pairs-within",
        all_left,
        {
            "left": [rows(("k", "1", 0), ("k", "2", 10), ("k", "3", 50))],
            "right": [rows(("k", "4", 10), ("k", "5", 20), ("k", "6", 21))],
        },
        out("L1R4", "L2R4", "L2R5", "L3RNone"),
        {},
    ),
    Conformance(
        "outer",
        all_outer,
        {"left": [rows(("k", "1", 0), ("a", "2", 50))], "right": [rows(("k", "3", 11), ("a", "4", 40))]},
        out("L1RNone", "LNoneR3", "L2R4"),
        {},
    ),
    Conformance(
        "latest-left-a-row-that-another-takes-the-place-of",
        latest_left,
        {"in": [rows(("k", "l1", 0), ("k", "l2", 1), ("k", "r1", 2), ("k", "l3", 3), ("k", "l4", LIFE + 5))]},
        out("Ll1RNone", "Ll2Rr1", "Ll3Rr1", "Ll4RNone"),
        {},
    ),
    Conformance(
        "latest-outer",
        latest_outer,
        {"in": [rows(("k", "r1", 0), ("k", "r2", 1), ("k", "l1", 2), ("k", "r3", LIFE + 2))]},
        out("LNoneRr1", "Ll1Rr2", "LNoneRr3"),
        {},
    ),
]


USUAL = ("outer", "latest-outer")


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)


def test_j12_a_stream_is_not_joined_with_itself() -> None:
    stream = Pipeline("self").stream("in", value=str, key=str)
    with pytest.raises(PipelineError, match="join 'both' joins a stream with itself"):
        stream.join(stream, paired, id="both", within=timedelta(seconds=1))

"""Conformance cases about windows behind a border that aggregates messages."""

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import Pipeline, dead_letter
from fluvial.dsl.message import Record
from generators.tallies import AGGREGATES, ASSIGNERS, letter, tallied, told


def all_of_them() -> Pipeline:
    """Each aggregate that may be merged, over tumbling windows."""
    pipeline = Pipeline("tallied", on_error=dead_letter())
    source = pipeline.stream("in", value=str)
    for name in AGGREGATES:
        keyed = source.partition_by(letter, id=f"for-{name}", key_type=str)
        keyed.window(ASSIGNERS["tumbling"], AGGREGATES[name](), id=name).map(told).send_to(name)
    return pipeline


def totals_in_hops() -> Pipeline:
    return tallied("total", "hopping")


def messages(*values: tuple[str, int]) -> dict[str, list[list[Record]]]:
    return {"in": [[(None, value.encode(), time, ()) for value, time in values]]}


def panes(*texts: str) -> list[bytes]:
    return [f"on_time {text}".encode() for text in texts]


CASES = [
    Conformance(
        "each-aggregate-with-a-message-that-fails",
        all_of_them,
        messages(("a1", 0), ("a2", 1), ("b5", 2), ("a", 3), ("a4", 11)),
        {
            "count": panes("a 0 3", "b 0 1", "a 10 1"),
            "total": panes("a 0 3", "b 0 5", "a 10 4"),
            "minimum": panes("a 0 1", "b 0 5", "a 10 4"),
            "maximum": panes("a 0 2", "b 0 5", "a 10 4"),
            "mean": panes("a 0 1.5", "b 0 5.0", "a 10 4.0"),
            "tally": panes(
                "a 0 Tally(first=1, last=2, messages=2)",
                "b 0 Tally(first=5, last=5, messages=1)",
                "a 10 Tally(first=4, last=4, messages=1)",
            ),
            "tallied-dead-letters": [b"a"] * 5,
        },
        {},
    ),
    Conformance(
        "hopping",
        totals_in_hops,
        messages(("a1", 0), ("a2", 5), ("a4", 11)),
        {"out": panes("a -8 1", "a -4 3", "a 0 3", "a 4 6", "a 8 4")},
        {},
    ),
]


USUAL = ("each-aggregate-with-a-message-that-fails",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_of_partial_aggregates_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)

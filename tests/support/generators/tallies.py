"""Pipelines with a window right behind a border, for each aggregate that may be merged before it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from fluvial.dsl import (
    Pane,
    Pipeline,
    aggregate,
    count,
    dead_letter,
    hopping,
    maximum,
    mean,
    minimum,
    total,
    tumbling,
)
from fluvial.dsl.windows.aggregates import Aggregate
from fluvial.dsl.windows.assigners import Assigner

SIZE = 10
"""The size of the windows in ms."""


class Tally(NamedTuple):
    """The first and the last number, and how many there were: it depends on the order of the messages."""

    first: int
    last: int
    messages: int


def number(value: str) -> int:
    """The number behind the letter of a message; ValueError where there is none."""
    return int(value[1:])


def no_tally() -> Tally:
    return Tally(0, 0, 0)


def with_message(tally: Tally, value: str) -> Tally:
    found = number(value)
    return Tally(tally.first if tally.messages else found, found, tally.messages + 1)


def joined(one: Tally, other: Tally) -> Tally:
    if one.last + other.first == 13:
        raise ValueError("unlucky")
    return Tally(one.first, other.last, one.messages + other.messages)


def lucky(one: Tally, other: Tally) -> Tally:
    return Tally(one.first, other.last, one.messages + other.messages)


AGGREGATES: Mapping[str, Callable[[], Aggregate[Any, Any]]] = {
    "count": count,
    "total": lambda: total(number),
    "minimum": lambda: minimum(number),
    "maximum": lambda: maximum(number),
    "mean": lambda: mean(number),
    "tally": lambda: aggregate(no_tally, with_message, merge=lucky),
}
ASSIGNERS: Mapping[str, Assigner] = {
    "tumbling": tumbling(timedelta(milliseconds=SIZE)),
    "hopping": hopping(timedelta(milliseconds=SIZE), every=timedelta(milliseconds=4)),
}


def letter(value: str) -> str:
    return value[0]


def told(pane: Pane[str, Any]) -> str:
    return f"{pane.kind} {pane.key} {pane.window.start} {pane.value}"


def tallied(
    aggregated: str = "count", windows: str = "tumbling", *, combine: bool = True, out_of_order: int = 3
) -> Pipeline:
    """Messages such as `a7` by their letter, in windows."""
    pipeline = Pipeline("tallied", on_error=dead_letter())
    source = pipeline.stream("in", value=str, out_of_order=timedelta(milliseconds=out_of_order))
    keyed = source.partition_by(letter, id="by-letter", key_type=str)
    panes = keyed.window(ASSIGNERS[windows], AGGREGATES[aggregated](), id="tally", combine=combine)
    panes.map(told).send_to("out")
    return pipeline

"""Which aggregates may be merged before a shuffle."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from fluvial.dsl import (
    aggregate,
    collect,
    count,
    hopping,
    maximum,
    mean,
    minimum,
    reduce,
    session,
    total,
    tumbling,
    unbounded,
)
from fluvial.dsl.windows.aggregates import Aggregate
from fluvial.dsl.windows.assigners import Assigner, aligned_span
from fluvial.dsl.windows.combining import of_type


class Sums(Struct):
    messages: int
    since: date | None


@dataclass
class Nested:
    sums: Sums
    pair: tuple[int, bool]


class Named(NamedTuple):
    number: int


class Tree(Struct):
    under: "Tree | None"


class Hidden(Struct):
    name: "NowhereToBeFound"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("type_", [int, bool, int | None, Sums, Nested, Named, tuple[int, int]])
def test_accumulators_of_a_fixed_size_may_be_merged(type_: Any) -> None:
    combines = of_type(type_)
    assert combines is not None
    assert combines(object())


@pytest.mark.parametrize(
    "type_",
    [datetime, float, str, bytes, list[int], dict[str, int], tuple[int, ...], tuple, Tree, Hidden, tuple[float], Any],
)
def test_others_may_not(type_: Any) -> None:
    assert of_type(type_) is None


def whole(value: str) -> int:
    return len(value)


def half_by_mistake(value: str) -> int:
    return len(value) / 2  # type: ignore[return-value]


def half(value: str) -> float:
    return len(value) / 2


@pytest.mark.parametrize("made", [total, minimum, maximum, mean])
def test_of_whole_numbers_alone(made: Any) -> None:
    assert made(half).combines is None
    assert made(lambda value: len(value)).combines is None  # nothing tells what it returns
    aggregated = made(whole)
    assert aggregated.combines(aggregated.add(aggregated.init(), "tea"))
    wrong = made(half_by_mistake)
    assert not wrong.combines(wrong.add(wrong.init(), "tea"))


def longest(best: int, word: str) -> int:
    return max(best, len(word))


@pytest.mark.parametrize(
    ("aggregated", "may"),
    [
        (count(), True),
        (aggregate(int, longest, merge=max), True),
        (aggregate(int, longest), False),
        (aggregate(list, lambda acc, _: acc, merge=lambda one, _: one, type=list[int]), False),
        (collect(), False),
        (reduce(lambda one, _: one), False),
    ],
)
def test_an_aggregate_of_the_user_s_needs_merge(aggregated: Aggregate[Any, Any], may: bool) -> None:
    assert (aggregated.combines is not None) is may


@pytest.mark.parametrize(
    ("assigner", "span"),
    [
        (tumbling(timedelta(milliseconds=10)), 10),
        (hopping(timedelta(milliseconds=10), every=timedelta(milliseconds=4)), 2),
        (hopping(timedelta(milliseconds=10), every=timedelta(milliseconds=10)), 10),
        (session(timedelta(milliseconds=10)), None),
        (unbounded(), None),
    ],
)
def test_spans_whose_times_lie_in_the_same_windows(assigner: Assigner, span: int | None) -> None:
    assert aligned_span(assigner) == span

"""What `deduplicate` is given is checked where it is written."""

from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import INT64, KeyedStream, Pipeline, PipelineError
from fluvial.dsl import operators as ops

SECOND = timedelta(seconds=1)


def number(order: str) -> int:
    return len(order)


def price(order: str) -> float:
    return len(order) / 2


def orders() -> KeyedStream[str, str]:
    return Pipeline("p").stream("orders", key=str, value=str)


def anything() -> Any:
    """The same, of which a type checker knows nothing."""
    return orders()


CASES: list[tuple[Any, str, str, str]] = [
    (lambda: orders().deduplicate(timedelta(0), id="d"), "'d': within is", "at least 1 ms", "timedelta"),
    (lambda: orders().deduplicate(SECOND, by=len, id="d"), "of its keys is not known", "a key type", "by_type=str"),
    (
        lambda: orders().deduplicate(SECOND, by_type=str, id="d"),
        "'d' has by_type= without by=",
        "what by= returns",
        "leave out by_type=",
    ),
    (lambda: orders().deduplicate(SECOND, by=price, id="d"), "'d': by: float is not a type", "str, bytes, int", ""),
    (lambda: anything().deduplicate(SECOND, by="number", id="d"), "'d': by got 'number'", "a function", "lambda"),
    (
        lambda: Pipeline("p").stream("orders", value=str).deduplicate(SECOND, id="d"),  # type: ignore[attr-defined]
        "deduplicate on a stream without a key",
        "a keyed stream",
        "partition_by",
    ),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_a_wrong_argument_is_refused(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)


def test_the_type_of_by_is_as_annotated_or_as_given() -> None:
    for options, kind in (({"by": number}, int), ({"by": len, "by_type": INT64}, INT64), ({}, None)):
        operator = anything().deduplicate(SECOND, id="d", **options).operator
        assert isinstance(operator, ops.Deduplicate)
        assert (operator.within, operator.by_type) == (1000, kind)

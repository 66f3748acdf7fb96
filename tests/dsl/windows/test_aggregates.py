"""Aggregates: what each makes of some values, that merging changes nothing, and what types they tell."""

from collections.abc import Sequence
from functools import reduce as fold
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import PipelineError, aggregate, collect, count, maximum, mean, minimum, reduce, total
from fluvial.dsl.windows.aggregates import Aggregate

WORDS = ("tea", "coffee", "milk")


def longest(best: str, word: str) -> str:
    return max(best, word, key=len)


def taken_in(kind: Aggregate[str, Any], words: Sequence[str]) -> Any:
    return fold(kind.add, words, kind.init())


CASES: list[tuple[Aggregate[str, Any], Any]] = [
    (count(), 3),
    (total(len), 13),
    (minimum(len), 3),
    (maximum(len), 6),
    (mean(len), 13 / 3),
    (collect(), [*WORDS]),
    (reduce(longest), "coffee"),
    (aggregate(str, longest, merge=longest), "coffee"),
]


@pytest.mark.parametrize(("kind", "result"), CASES)
def test_values_become_one(kind: Aggregate[str, Any], result: Any) -> None:
    assert kind.result(taken_in(kind, WORDS)) == result


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize(("kind", "result"), CASES)
def test_windows_that_merge_give_what_one_window_gives(kind: Aggregate[str, Any], result: Any, at: int) -> None:
    assert kind.merge is not None
    assert kind.result(kind.merge(taken_in(kind, WORDS[:at]), taken_in(kind, WORDS[at:]))) == result


def test_each_window_has_an_accumulator_of_its_own() -> None:
    kind: Aggregate[str, list[str]] = collect()
    kind.add(kind.init(), "tea")
    assert kind.init() == []


@pytest.mark.parametrize(
    ("kind", "state", "gives"),
    [
        (count(), int, int),
        (mean(len), tuple[int | float, int], float),
        (maximum(len, type=int), int | None, int),
        (collect(), list[str | None], list[str | None]),
        (reduce(longest), str | None, str | None),
        (aggregate(str, longest), str, str),
        (aggregate(str, max, type=bytes), bytes, bytes),
    ],
)
def test_types_of_accumulator_and_result_follow_from_that_of_the_values(
    kind: Aggregate[str, Any], state: Any, gives: Any
) -> None:
    assert (kind.state(str), kind.gives(str)) == (state, gives)


def test_a_value_whose_type_nobody_tells_must_be_plain() -> None:
    kind: Aggregate[str, Any] = maximum(lambda word: (word,))
    with pytest.raises(TypeError, match="keeps int, float, str or bool, not tuple"):
        kind.add(kind.init(), "tea")


def test_an_accumulator_of_unknown_type_is_refused() -> None:
    def make() -> None:
        aggregate(lambda: "", lambda best, _: best)

    error = error_of(make, PipelineError)
    assert_explains(
        error, "nothing tells the accumulator's type", None, "an annotated add", "annotate what add returns"
    )

"""Mistakes are planted where they say, taken out again, and refused by name where the code has changed."""

import sys
from collections.abc import Callable

import pytest

from faults.mutants import Mutant, MutantLost, Replaced, Rewritten, planted

HERE = sys.modules[__name__]


def double(number: int) -> int:
    return number * 2


@pytest.mark.parametrize(
    "mutant",
    [
        Replaced("one too many", HERE, "double", lambda right, number: right(number) + 1),
        Rewritten("one too many", HERE, "double", "number * 2", "number * 2 + 1"),
    ],
)
def test_a_mistake_is_there_for_a_while(mutant: Mutant) -> None:
    with planted(mutant):
        assert double(3) == 7
    assert double(3) == 6


@pytest.mark.parametrize("wrong", [lambda right: right(1), lambda right, number: right(number, 1)])
def test_a_mistake_whose_function_takes_other_arguments_is_refused(wrong: Callable[..., int]) -> None:
    with (
        planted(Replaced("doubles", HERE, "double", wrong)),
        pytest.raises(MutantLost, match="'double' takes other arguments"),
    ):
        double(3)


@pytest.mark.parametrize(
    ("mutant", "sought"),
    [
        (Replaced("halves", HERE, "half", lambda right, number: right(number)), "no function 'half'"),
        (Rewritten("triples", HERE, "double", "number * 3", "number"), "'number \\* 3' occurs 0 times"),
    ],
)
def test_a_mistake_whose_code_is_gone_is_refused_by_name(mutant: Mutant, sought: str) -> None:
    with pytest.raises(MutantLost, match=f"{mutant.behaviour!r} finds nothing to change: .*{sought}"), planted(mutant):
        pass

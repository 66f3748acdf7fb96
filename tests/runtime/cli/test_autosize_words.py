"""The options of `fluvial run --autosize`, as text."""

from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import UsageError
from fluvial.runtime.cli.autosize_words import AutosizeWords, autosize_of, containers_of


def words(**given: Any) -> AutosizeWords:
    usual: dict[str, Any] = dict.fromkeys(("containers", "catch_up", "utilization", "container_memory"))
    usual |= {"autosize": "on", "elasticity": []}
    return AutosizeWords(**(usual | given))


def test_ranges_are_bounds() -> None:
    made = autosize_of(words(containers="1..8", elasticity=["2..16"], container_memory="2GB", autosize="advise"))
    assert made is not None
    assert (made.containers, made.elasticity, made.memory, made.advise) == ((1, 8), (2, 16), 2_000_000_000, True)


def test_one_elasticity_is_least_and_most_and_none_is_no_split() -> None:
    made = [autosize_of(words(containers="1..8", elasticity=given)) for given in (["4"], [])]
    assert [one.elasticity for one in made if one is not None] == [(4, 4), (1, 1)]


def test_without_autosize_a_number_is_a_number() -> None:
    assert containers_of(words(autosize=None, containers="3")) == 3
    assert containers_of(words(autosize=None)) is None
    assert autosize_of(words(autosize=None, elasticity=["4"])) is None


@pytest.mark.parametrize(
    ("given", "wrong", "remedy"),
    [
        ({"containers": "4"}, "--containers 4 with --autosize", "write --containers 1..8"),
        ({}, "--containers  with --autosize", "write --containers 1..8"),
        ({"containers": "8..1"}, "--containers 8..1", "write --containers 1..8"),
        ({"containers": "a..b"}, "--containers a", "write --containers 4"),
        ({"containers": "1..8", "elasticity": ["1..5"]}, "--elasticity 1..5", "write --elasticity 1..16"),
        ({"containers": "1..8", "elasticity": ["in=2"]}, "--elasticity in=2", "write --elasticity 1..16"),
        ({"containers": "1..8", "catch_up": "soon"}, "--catch-up soon", ""),
        ({"containers": "1..8", "utilization": 7.0}, "utilization=7.0", "utilization=0.7"),
        ({"autosize": None, "elasticity": ["1..4"]}, "--elasticity 1..4 without --autosize", "write --autosize too"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], wrong: str, remedy: str) -> None:
    assert_explains(error_of(lambda: autosize_of(words(**given)), UsageError), wrong, None, "", remedy)


@pytest.mark.parametrize("text", ["1..4", "0", "many"])
def test_a_number_of_containers_is_refused_that_is_none(text: str) -> None:
    error_of(lambda: containers_of(words(autosize=None, containers=text)), UsageError)

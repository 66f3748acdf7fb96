"""The types that flow from operator to operator, and how they are shown."""

from typing import Any

import pytest

from fluvial.dsl import Pipeline
from fluvial.dsl.annotations import UNKNOWN
from fluvial.dsl.serde import key_serde
from fluvial.planner.flow import Flow, as_given, known_name, of_function, plain, without_none

TEXT = key_serde(str)


def length(word: str) -> int:
    return len(word)


@pytest.mark.parametrize(("kind", "rest"), [(int | None, int), (int | str | None, int | str), (int, int)])
def test_a_type_without_none_is_what_is_left_of_it(kind: Any, rest: Any) -> None:
    assert without_none(kind) == rest


@pytest.mark.parametrize(("kind", "text"), [(dict[str, int], "dict[str, int]"), (None, None), (UNKNOWN, None)])
def test_a_type_is_shown_by_its_name_and_no_type_is_not(kind: Any, text: str | None) -> None:
    assert known_name(kind) == text


def test_a_serde_is_shown_by_its_own_name_and_stands_for_its_type() -> None:
    assert (known_name(TEXT), plain(TEXT), plain(int)) == (TEXT.name, str, int)


def test_a_function_gives_its_values_under_the_key_that_they_had() -> None:
    operator = Pipeline("p").stream("in", value=str).map(length).operator
    assert of_function(operator, [Flow(bytes, str)]) == Flow(bytes, int)
    assert as_given(operator, [Flow(bytes, str), Flow(str, int)]) == Flow(bytes, str)

"""Facts that give keys and values a meaning: formats of types, and what a serde says of its bytes."""

from typing import Any

import pytest

from fluvial.dsl import Serde
from fluvial.planner.kinds.state_facts import format_name, key_facts, row_facts, type_of_values
from fluvial.planner.state_schema import WHOLE_NAME


def serde(layout: dict[str, str] | None) -> Serde[int]:
    return Serde("packed:Order", int, lambda number: b"%d" % number, int, layout=layout)


@pytest.mark.parametrize(
    ("kind", "name"), [(str, "str"), (bytes, "bytes"), (int, "json"), (dict[str, int], "json"), (serde(None), "packed")]
)
def test_a_format_is_that_in_which_values_are_encoded(kind: Any, name: str) -> None:
    assert format_name(kind) == name


def test_a_type_needs_no_layout_for_it_is_compared_itself() -> None:
    assert (row_facts("rows", int), type_of_values("row", int)) == ({"rows": "json"}, {"row": int})


def test_a_serde_that_tells_nothing_of_its_bytes_goes_by_its_whole_name() -> None:
    assert row_facts("rows", serde(None)) == {"rows": "packed", f"rows{WHOLE_NAME}": "packed:Order"}
    assert type_of_values("row", serde(None)) == {"row": int}


def test_a_serde_with_a_layout_goes_by_that_instead_of_a_type() -> None:
    layout = {"schema": "7"}
    assert row_facts("rows", serde(layout)) == {"rows": "packed", "rows, schema": "7"}
    assert type_of_values("row", serde(layout)) == {}


def test_a_key_goes_by_the_name_of_its_serde() -> None:
    assert key_facts(str) == {"key": "str"}
    assert key_facts(str) != key_facts(bytes)

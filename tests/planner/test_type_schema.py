"""The structure of types, as data and as text."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec

from fluvial.dsl import Pane
from fluvial.planner.type_reading import can_read
from fluvial.planner.type_schema import schema_text, type_schema


@dataclass
class Visit:
    pages: list[str]
    first: int = 0


class Tree(msgspec.Struct):
    value: int
    branches: "list[Tree]" = []


class Partly(TypedDict):
    name: str
    age: NotRequired[int]


class Colour(Enum):
    RED = 1
    BLUE = 2


def test_a_schema_is_json_and_comes_back() -> None:
    for kind in (Visit, Tree, Partly, dict[str, Visit | None], tuple[Pane[str, int], Pane[str, float]]):
        made = type_schema(kind)
        assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made


def test_the_text_of_a_schema_is_a_type_as_people_write_it() -> None:
    assert schema_text(type_schema(dict[str, Visit | None])) == "dict[str, Visit(pages: list[str], first: int) | None]"
    assert schema_text(type_schema(Tree)) == "Tree(value: int, branches: list[Tree])"
    assert schema_text(type_schema(Literal["a", 1])) == "one of 1, 'a'"
    assert schema_text(type_schema(set[Colour])) == "set[one of RED=1, BLUE=2]"
    assert schema_text(type_schema(list[Annotated[int, msgspec.Meta(gt=0, lt=9)]])) == "list[int with ge=1 and le=8]"


def test_what_a_class_may_leave_out_is_described_with_its_default() -> None:
    class Limits(msgspec.Struct, omit_defaults=True):
        name: str
        most: int = 10
        tags: list[str] = []

    found = type_schema(Limits).classes
    (limits,) = found.values()
    assert limits.always == ["name"]
    assert limits.defaults == {"most": "10", "tags": "[]"}
    # Of a dataclass that was read without it, a field that has a default is not written.
    assert type_schema(Visit).classes["Visit"].omitted == ["first"]


def test_a_class_that_msgspec_does_not_know_is_known_by_its_name() -> None:
    class Other:
        """Not to be decoded."""

    made = type_schema(Other)
    assert can_read(made, type_schema(Other))
    assert not can_read(made, type_schema(complex))


def test_a_default_that_json_does_not_have_is_described_in_words() -> None:
    class Limits(msgspec.Struct, omit_defaults=True):
        most: float = math.inf
        least: float = -math.inf

    (limits,) = type_schema(Limits).classes.values()
    assert limits.defaults == {"most": "inf", "least": "-inf"}
